#!/bin/bash
# run.sh EDITOR MODE FOLDER: edits FOLDER/tree.yaml in a real editor on its own terminal.
#
# save    replaces "first light" by "second light", saves and quits
# mend    replaces it by "a: b: c", which must be visibly refused; then corrects and saves it in the same session.
#         The editor must not ask if another program changed the file
# again   mend, after a save of a text without the line %YAML, which is restored in the file
# later   mend, after a save of another text in the same session
#
# EDITOR.sh defines the commands: $command starts the editor; change OLD NEW, save and quit; after_refusal, if the
# screen must be cleared after a refusal. It also defines patterns for the screen: $saved and $refused after a save;
# $unsaved, shown until a save succeeds, if the editor reports success in no other way. An editor that ignores
# refusals has no $refused; its user finds tree.yaml.error. Exit status 0: success; 1: failure, and the screen is
# printed.
set -u
export LC_ALL=C.UTF-8
here=$(dirname "$0"); editor=$1; mode=$2; folder=$3
work=$(mktemp -d); export HOME=$work/home; mkdir "$HOME"
unset VIMINIT EXINIT EDITOR VISUAL TMUX XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME
asks='changed on disk|has changed since|really want to write|modified by|File on disk'
saved= refused= unsaved=
after_refusal() { :; }
# For editors with a complicated replace dialogue: the text is at the end of its line.
to_line() { keys -N $(($(grep -n "$1" tree.yaml | cut -d: -f1) - 1)) Down; sleep 0.2; }
retype() { keys End; keys -N ${#1} BSpace; words "$2"; }
. "$here/$editor.sh"

end() { tmux -S "$work/s" kill-server 2>/dev/null; rm -rf "$work"; }
trap end EXIT
screen() { tmux -S "$work/s" capture-pane -p; }
keys() { tmux -S "$work/s" send-keys "$@"; sleep 0.1; }
words() { tmux -S "$work/s" send-keys -l -- "$1"; sleep 0.2; }
lost() { echo "$editor, $mode: $1"; screen | grep -v '^ *$'; exit 1; }
shows() { # PATTERN [TENTHS]
  local n=${2:-600}
  while ! screen | grep -qE -- "$1"; do
    [ $((n -= 1)) -gt 0 ] || return 1
    sleep 0.1
  done
}
outcome() { # sets $outcome to the result of a save: saved, refused or asked
  local n=600
  while [ $((n -= 1)) -gt 0 ]; do
    screen >"$work/screen"
    grep -qE -- "$asks" "$work/screen" && { outcome=asked; return; }
    [ -n "$refused" ] && grep -qE -- "$refused" "$work/screen" && { outcome=refused; return; }
    [ -n "$saved" ] && grep -qE -- "$saved" "$work/screen" && { outcome=saved; return; }
    [ -n "$unsaved" ] && ! grep -qE -- "$unsaved" "$work/screen" && { outcome=saved; return; }
    sleep 0.1
  done
  outcome=nothing
}

cd "$folder" || exit 1
printf 'cd %q; %s; echo "ended with $?"; sleep 1000\n' "$folder" "$command" >"$work/run"
tmux -S "$work/s" -f /dev/null new-session -d -x 140 -y 40 "exec bash $work/run"
tmux -S "$work/s" set -s escape-time 0
shows 'ASDF' || lost 'does not show the file'
if [ "$mode" = again ]; then
  change '%YAML 1.1' '# no version'
  save; outcome
  [ $outcome = saved ] || lost "$outcome where the first should be saved"
fi
if [ "$mode" = later ]; then
  change 'first light' 'first lamp'
  save; outcome
  [ $outcome = saved ] || lost "$outcome where the first should be saved"
  change 'first lamp' 'first light'
fi
if [ "$mode" != save ]; then
  change 'first light' 'a: b: c'
  save; outcome
  if [ -n "$refused" ]; then
    [ $outcome = refused ] || lost "$outcome where it should be refused"
  else
    [ $outcome = saved ] && [ -s tree.yaml.error ] || lost "$outcome, and no tree.yaml.error"
  fi
  after_refusal
  change 'a: b: c' 'second light'
else
  change 'first light' 'second light'
fi
save; outcome
[ $outcome = saved ] || lost "$outcome where it should be saved"
quit
shows 'ended with 0' || lost 'does not end'
