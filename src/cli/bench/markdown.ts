import type { Report } from './report.ts'
import {
  describeCases,
  describeMachine,
  GOAL_HEADINGS,
  HEADINGS,
  listCells,
  listGoalCells,
  listRemarks,
} from './text.ts'

/** Renders a report as the page `docs/performance.md`. */
export const renderPage = (report: Report): string =>
  [
    '# Performance',
    '',
    INTRODUCTION,
    '',
    '## The machine',
    '',
    ...renderList(describeMachine(report)),
    '',
    '## Figures',
    '',
    ...renderTable(HEADINGS, report.data.map(listCells)),
    '',
    ...renderList(describeCases(report)),
    '',
    ...renderList(listRemarks(report)),
    '',
    '## Goals',
    '',
    ...renderTable(GOAL_HEADINGS, report.goals.map(listGoalCells)),
    '',
    EPILOGUE,
    '',
  ].join('\n')

const INTRODUCTION = `This page is what \`gateway bench --markdown\` printed. Run it on your machine:
figures of different machines cannot be compared, ratios can.

The benchmark starts everything itself, on loopback and in a temporary directory, and ends it:

- a mock provider that answers at once, with 1 KB or a stream;
- a load generator;
- the contenders, one under load at a time, in a new order each round: \`direct\` (the mock itself),
  \`sockets\` (bytes from socket to socket, unread), \`nginx\` and \`portkey\` where they are
  installed, \`floor\` (a Bun proxy of ten lines: it looks up a key, parses, forwards and
  serialises), \`ours\` (the gateway with a key) and \`ours-full\`: with limits of the key, the
  workspace and a guardrail, three content filters and a webhook that is told every call.

The ten-line proxy is a fair anchor and no floor: sockets alone take half of it. Each contender is
warmed up with 30,000 calls at the concurrency that is measured, and with streams of each kind, and
begins each turn with calls that are not measured. Turns last a second. CPU is the time that the
scheduler gave to all threads of the contender. Nothing is subtracted: parsing, the connection to
the provider and the record on disk are in it. The ratio is to the ten-line proxy in the same round:
the median of the rounds, with its quartiles. Where the ten-line proxy’s own quartiles differ by
more than 15 %, the machine was too busy, and there is no verdict.`

const EPILOGUE = `What this does not measure: memory of thousands of streams, large bodies and overload are what
\`bun run bench:overload\` prints, a chunk from every protocol to every dialect
\`bun run bench:translation\`, the filters’ cost for a megabyte \`bun run bench:filters\`, questions
about millions of calls \`bun run bench:rollups\`, what a stream costs apart from its chunks
\`bun run bench:compare --stream\`, a data directory that has grown \`bun run bench:growth\`, and the
size of the program’s parts \`bun run sizes\`.`

const renderList = (lines: string[]): string[] => lines.map(line => `- ${wrap(line)}`)

/** Breaks a line of a list at 100 columns. */
function wrap(line: string): string {
  let width = 2 + line.indexOf(' ')
  return line.split(' ').reduce((text, word) => {
    const isFull = width + 1 + word.length > 100
    width = isFull ? 2 + word.length : width + 1 + word.length
    return text + (isFull ? '\n  ' : ' ') + word
  })
}

const renderTable = (headings: string[], rows: (string | number | null)[][]): string[] => [
  renderRow(headings),
  renderRow(headings.map(() => '---')),
  ...rows.map(row => renderRow(row.map(cell => String(cell ?? '-')))),
]

const renderRow = (cells: string[]): string => `| ${cells.join(' | ')} |`
