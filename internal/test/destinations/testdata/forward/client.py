"""Sends a request through the forward proxy with Python's standard library."""
import os
import ssl
import sys
import urllib.error
import urllib.request

trust = ssl.create_default_context(cafile=os.environ["CA"])
trust.verify_flags |= ssl.VERIFY_X509_STRICT
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({"https": os.environ["PROXY"]}), urllib.request.HTTPSHandler(context=trust))
request = urllib.request.Request(sys.argv[1], data=os.environ["BODY"].encode(), headers={
    "Authorization": "Bearer {{ secret }}", "Content-Type": "application/json"})
try:
    response = opener.open(request)
except urllib.error.HTTPError as e:
    response = e
print(response.status, response.read().decode())
