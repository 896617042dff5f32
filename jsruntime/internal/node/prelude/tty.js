'use strict';
// tty without a terminal.
module.exports = { isatty: () => false, ...require('denied').each('tty.', 'ReadStream WriteStream') };
