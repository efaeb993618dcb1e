emacs_options='file-precious-flag t'
. "$here/emacs.sh"
# It says that it wrote the temporary file before that is renamed.
save() { keys C-x C-s; sleep 1; }
