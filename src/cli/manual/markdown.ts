import { type Entry, EXIT_STATUSES, type ManualPage, VARIABLES } from '../manual.ts'

/** Renders all pages as one document in Markdown. */
export const renderMarkdown = (pages: ManualPage[]): string =>
  [
    '# Reference of commands',
    '',
    '<!-- Written by bun run docs from the definitions of the commands. -->',
    '',
    'What `--help`, `gateway man` and the completions say, in one place. [Commands](commands.md) tells',
    'what they have in common.',
    '',
    '## Options of every command',
    '',
    ...listCommon(pages).map(renderEntry),
    '',
    'Where a command does not take one of them, its section says so.',
    '',
    '## Exit statuses',
    '',
    ...EXIT_STATUSES.map(renderEntry),
    '',
    '## Environment',
    '',
    ...VARIABLES.map(renderEntry),
    ...pages
      .filter(({ words }) => words.length > 0)
      .flatMap(page => renderPage(page, listCommon(pages))),
    '',
  ].join('\n')

/** Lists the options of every command: the program’s own page has them all. */
const listCommon = (pages: ManualPage[]): Entry[] =>
  pages.find(({ words }) => words.length === 0)?.common ?? []

function renderPage(page: ManualPage, common: Entry[]): string[] {
  const level = page.words.length === 1 ? '##' : '###'
  return [
    '',
    `${level} gateway ${page.words.join(' ')}`,
    '',
    wrapText(toSentence(page.description)),
    ...(page.children.length > 0 ? [] : renderBody(page, common)),
  ]
}

const renderBody = (
  { usage, arguments: args, options, common: own, examples }: ManualPage,
  common: Entry[],
): string[] => [
  ...['', '```text', usage, '```'],
  ...(args.length + options.length > 0 ? ['', ...[...args, ...options].map(renderEntry)] : []),
  ...renderMissing(common.filter(({ term }) => own.every(one => one.term !== term))),
  ...['', '```sh', ...examples.map(example => `gateway ${example}`), '```'],
]

const renderMissing = (missing: Entry[]): string[] =>
  missing.length === 0
    ? []
    : ['', wrapText(`It takes no ${missing.map(({ term }) => `\`${term}\``).join(', ')}.`)]

const renderEntry = ({ term, meaning }: Entry): string =>
  wrapText(meaning === '' ? `- \`${term}\`` : `- \`${term}\`: ${toMarkdown(meaning)}`, '  ')

const WIDTH = 100

/** Breaks a text between words. */
function wrapText(text: string, indent = ''): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line !== '' && line.length + 1 + word.length > WIDTH) lines.push(indent + word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join('\n')
}

/** Angle brackets would be tags, and stars emphasis. */
const toMarkdown = (text: string): string => text.replace(/[<>*_|]/g, '\\$&')

const toSentence = (text: string): string =>
  `${toMarkdown(text.charAt(0).toUpperCase() + text.slice(1))}.`
