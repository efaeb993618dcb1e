vim_options="-c 'set patchmode=.orig backupcopy=no'"
. "$here/vim.sh"
