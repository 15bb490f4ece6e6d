import { Argument, Command } from 'commander'
import { SHELLS, type Shell, type Word } from '../completions/words.ts'
import type { Candidate, Completion } from '../completions.ts'
import { print } from '../output.ts'

/** `gateway completions`: a script for a shell, which asks the same command how a line may go on. */
export const createCompletionsCommand = () =>
  new Command('completions')
    .description('print the completions of a shell: commands, options, and names of what there is')
    .addArgument(new Argument('<shell>', 'which').choices(SHELLS))
    .argument('[word...]', 'after --, the words so far: list how the last one may go on')
    .addHelpText('after', HELP)
    .action(complete)

const HELP = `
In ~/.bashrc:                      source <(gateway completions bash)
In ~/.zshrc, after compinit:       source <(gateway completions zsh)
In ~/.config/fish/config.fish:     gateway completions fish | source

Names of keys, workspaces, presets and models are read from the data directory and the config of
this host when Tab is pressed. Nothing is sent.`

async function complete(shell: Shell, words: string[], _: object, self: Command): Promise<void> {
  if (words.length > 0) return printCompletion(shell, words, self.parent as Command)
  const { SCRIPTS } = await import('../completions/scripts.ts')
  process.stdout.write(SCRIPTS[shell])
}

/** Prints what kind of values follow, and each on a line: a shell reads them as data. */
async function printCompletion(shell: Shell, given: string[], program: Command): Promise<void> {
  const { completeLine } = await import('../completions.ts')
  const { listLiveValues } = await import('../completions/values.ts')
  const words = await readWords(shell, given)
  const values = words.map(({ value }) => value)
  // Whatever is wrong with the data is said by the command that is being typed, and not by Tab.
  const none: Completion = { candidates: [], areFiles: false }
  const completion = await completeLine(program, values, listLiveValues).catch(() => none)
  const lines = completion.candidates.filter(isOneLine)
  print(completion.areFiles ? 'files' : 'values')
  for (const line of await renderCandidates(shell, lines, words.at(-1), given[1])) print(line)
}

/** Reads the words after the program: bash hands over the line, as it splits words too far. */
async function readWords(shell: Shell, given: string[]): Promise<Word[]> {
  const { readTypedWord, splitLine } = await import('../completions/words.ts')
  if (shell === 'bash') return splitLine(given[0] ?? '').slice(1)
  // Fish hands over the finished words without their quotes.
  const isTyped = (index: number) => shell === 'zsh' || index === given.length - 1
  return given.map((raw, index) =>
    isTyped(index) ? readTypedWord(raw) : { raw, value: raw, open: null },
  )
}

async function renderCandidates(
  shell: Shell,
  candidates: Candidate[],
  typed: Word | undefined,
  breaks = '',
): Promise<string[]> {
  const { toPrintable } = await import('../../base/printable.ts')
  if (shell !== 'bash')
    return candidates.map(({ value, meaning }) =>
      meaning === '' ? value : `${value}\t${toPrintable(meaning)}`,
    )
  const { renderForBash } = await import('../completions/words.ts')
  return candidates.flatMap(
    ({ value }) => (typed ? renderForBash(value, typed, breaks) : undefined) ?? [],
  )
}

// A line end or a tab would end the candidate for the shell.
const isOneLine = ({ value }: Candidate): boolean =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
  !/[\u0000-\u001f\u007f-\u009f]/.test(value)
