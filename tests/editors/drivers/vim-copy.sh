vim_options="-c 'set backupcopy=yes backup undofile'"
. "$here/vim.sh"
