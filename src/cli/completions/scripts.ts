import type { Shell } from './words.ts'

/**
 * What each shell runs when somebody presses Tab. Candidates are data: they are read line by line
 * and never evaluated. The first line says whether they are these values or names of files.
 */
export const SCRIPTS: Record<Shell, string> = {
  bash: `# bash completion of gateway. In ~/.bashrc: source <(gateway completions bash)
_gateway() {
  local mode='' line
  COMPREPLY=()
  {
    IFS= read -r mode
    while IFS= read -r line; do COMPREPLY+=("$line"); done
  } < <(command gateway completions bash -- "\${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  if [ "$mode" = files ]; then
    compopt -o default -o bashdefault 2>/dev/null
  fi
}
complete -F _gateway gateway
`,
  zsh: `#compdef gateway
# zsh completion of gateway. In ~/.zshrc, after compinit: source <(gateway completions zsh)
_gateway() {
  local mode='' line
  local -a values shown
  {
    IFS= read -r mode
    while IFS= read -r line; do
      values+=("\${line%%$'\\t'*}")
      if [[ "$line" == *$'\\t'* ]]; then
        shown+=("\${line%%$'\\t'*}  \${line#*$'\\t'}")
      else
        shown+=("$line")
      fi
    done
  } < <(command gateway completions zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if [[ "$mode" == files ]]; then
    _files
  elif (( \${#values} )); then
    compadd -l -d shown -a -- values
  fi
}
if [[ "\${funcstack[1]}" == _gateway ]]; then
  _gateway "$@"
else
  compdef _gateway gateway
fi
`,
  fish: `# fish completion of gateway. In ~/.config/fish/config.fish: gateway completions fish | source
function __gateway_complete
  set -l current (commandline -ct)
  set -l lines (command gateway completions fish -- (commandline -opc)[2..-1] "$current" 2>/dev/null)
  if test "$lines[1]" = files
    __fish_complete_path "$current"
  else
    string join -- \\n $lines[2..-1]
  end
end
complete -c gateway -f -a '(__gateway_complete)'
`,
}
