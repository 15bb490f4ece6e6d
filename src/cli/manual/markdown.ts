import { type Entry, EXIT_STATUSES, type ManualPage, VARIABLES } from '../manual.ts'

/** Renders all pages as one document in Markdown. */
export const renderMarkdown = (pages: ManualPage[], common: Entry[]): string =>
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
    ...common.map(renderEntry),
    '',
    '## Exit statuses',
    '',
    ...EXIT_STATUSES.map(renderEntry),
    '',
    '## Environment',
    '',
    ...VARIABLES.map(renderEntry),
    ...pages.filter(({ words }) => words.length > 0).flatMap(renderPage),
    '',
  ].join('\n')

function renderPage(page: ManualPage): string[] {
  const level = page.words.length === 1 ? '##' : '###'
  return [
    '',
    `${level} gateway ${page.words.join(' ')}`,
    '',
    wrapText(toSentence(page.description)),
    ...(page.children.length > 0 ? [] : renderBody(page)),
  ]
}

const renderBody = ({ usage, arguments: args, options, examples }: ManualPage): string[] => [
  ...['', '```text', usage, '```'],
  ...(args.length + options.length > 0 ? ['', ...[...args, ...options].map(renderEntry)] : []),
  ...['', '```sh', ...examples.map(example => `gateway ${example}`), '```'],
]

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
