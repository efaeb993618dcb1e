vim_options="-c 'set nofsync'"
. "$here/vim.sh"
