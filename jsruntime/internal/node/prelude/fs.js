'use strict';
// fs without files.
const { refuse, rejects, each, numbers } = require('denied');

const constants = Object.freeze(Object.assign(Object.create(null), numbers(
  'UV_FS_SYMLINK_DIR=1 UV_FS_SYMLINK_JUNCTION=2 O_RDONLY=0 O_WRONLY=1 O_RDWR=2 UV_DIRENT_UNKNOWN=0 UV_DIRENT_FILE=1 UV_DIRENT_DIR=2 ' +
  'UV_DIRENT_LINK=3 UV_DIRENT_FIFO=4 UV_DIRENT_SOCKET=5 UV_DIRENT_CHAR=6 UV_DIRENT_BLOCK=7 S_IFMT=61440 S_IFREG=32768 S_IFDIR=16384 ' +
  'S_IFCHR=8192 S_IFBLK=24576 S_IFIFO=4096 S_IFLNK=40960 S_IFSOCK=49152 O_CREAT=64 O_EXCL=128 UV_FS_O_FILEMAP=0 O_NOCTTY=256 O_TRUNC=512 ' +
  'O_APPEND=1024 O_DIRECTORY=65536 O_NOATIME=262144 O_NOFOLLOW=131072 O_SYNC=1052672 O_DSYNC=4096 O_DIRECT=16384 O_NONBLOCK=2048 S_IRWXU=448 ' +
  'S_IRUSR=256 S_IWUSR=128 S_IXUSR=64 S_IRWXG=56 S_IRGRP=32 S_IWGRP=16 S_IXGRP=8 S_IRWXO=7 S_IROTH=4 S_IWOTH=2 S_IXOTH=1 F_OK=0 R_OK=4 W_OK=2 ' +
  'X_OK=1 UV_FS_COPYFILE_EXCL=1 COPYFILE_EXCL=1 UV_FS_COPYFILE_FICLONE=2 COPYFILE_FICLONE=2 UV_FS_COPYFILE_FICLONE_FORCE=4 ' +
  'COPYFILE_FICLONE_FORCE=4',
)));
const both = 'appendFile access chown chmod close copyFile cp fchown fchmod fdatasync fstat fsync ftruncate futimes lchown link lstat lutimes ' +
  'mkdir mkdtemp open opendir readdir read readv readFile readlink realpath rename rm rmdir stat symlink truncate unlink utimes writeFile write writev';
const promised = 'access copyFile cp open opendir rename truncate rm rmdir mkdir readdir readlink symlink lstat stat link unlink chmod lchmod lchown ' +
  'chown utimes lutimes realpath mkdtemp writeFile appendFile readFile watch';

module.exports = {
  ...each('fs.', both),
  ...each('fs.', both.replace(/(\w+)/g, '$1Sync')),
  ...each('fs.', 'createReadStream createWriteStream exists existsSync unwatchFile watch watchFile Dir Dirent Stats ReadStream WriteStream FileReadStream FileWriteStream'),
  F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1,
  constants,
  promises: { ...each('fs.promises.', promised, rejects), constants },
};
for (const name of ['realpath', 'realpathSync']) module.exports[name].native = refuse(`fs.${name}.native`);
