package cli

import _ "github.com/seed-72ea4aab/vault/vaultkms"
