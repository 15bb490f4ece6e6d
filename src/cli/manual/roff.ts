import { VERSION } from '../../base/version.ts'
import { type Entry, EXIT_STATUSES, type ManualPage, VARIABLES } from '../manual.ts'

/** Names the file of a page: `gateway-keys-create.1`. */
export const nameFile = ({ words }: Pick<ManualPage, 'words'>): string =>
  `${['gateway', ...words].join('-')}.1`

/** Renders a page for `man`, in the macros that groff and mandoc share. */
export function renderRoff(page: ManualPage): string {
  const name = ['gateway', ...page.words].join('-')
  const own = page.words.length === 0
  return [
    `.TH ${quote(name.toUpperCase())} 1 "" ${quote(`gateway ${VERSION}`)}`,
    ...section('NAME', [`${toRoff(name)} \\- ${toRoff(page.description)}`]),
    ...section('SYNOPSIS', [`.B ${toRoff(page.usage)}`]),
    ...section('COMMANDS', page.children.flatMap(renderChild)),
    ...section('ARGUMENTS', page.arguments.flatMap(renderEntry)),
    ...section('OPTIONS', page.options.flatMap(renderEntry)),
    ...section(
      own ? 'OPTIONS OF EVERY COMMAND' : 'COMMON OPTIONS',
      page.common.flatMap(renderEntry),
    ),
    ...section('EXAMPLES', page.examples.flatMap(renderExample)),
    ...section('EXIT STATUS', EXIT_STATUSES.flatMap(renderEntry)),
    ...section('ENVIRONMENT', own ? VARIABLES.flatMap(renderEntry) : []),
    ...section('SEE ALSO', renderNeighbours(page)),
  ]
    .join('\n')
    .concat('\n')
}

const section = (title: string, lines: string[]): string[] =>
  lines.length === 0 ? [] : [`.SH ${title}`, ...lines]

const renderEntry = ({ term, meaning }: Entry): string[] => [
  '.TP',
  `.B ${toRoff(term)}`,
  toRoff(meaning) || '\\&',
]

const renderChild = ({ words, description }: ManualPage['children'][number]): string[] =>
  renderEntry({ term: `gateway ${words.join(' ')}`, meaning: description })

const renderExample = (example: string): string[] => [
  '.PP',
  '.EX',
  `gateway ${toRoff(example)}`,
  '.EE',
]

function renderNeighbours({ words, children }: ManualPage): string[] {
  const above = words.length === 0 ? [] : [words.slice(0, -1)]
  const others = [...above, ...children.map(child => child.words)]
  return others.length === 0
    ? []
    : [others.map(one => `\\fB${toRoff(['gateway', ...one].join('-'))}\\fR(1)`).join(', ')]
}

const quote = (text: string): string => `"${toRoff(text).replaceAll('"', '\\(dq')}"`

/** A backslash, a dot or a quote that begins a line, and a hyphen mean something to roff. */
const toRoff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^[.']/, '\\&$&')
    .replace(/[^\t -~]/gu, toCode)

// Whatever the encoding of the page is taken for.
const toCode = (letter: string): string =>
  `\\[u${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`
