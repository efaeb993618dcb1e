vim_options="-c 'set nowritebackup noswapfile'"
. "$here/vim.sh"
