vim_options="-c 'set backupcopy=yes'"
. "$here/nvim.sh"
