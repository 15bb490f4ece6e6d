import { parseArgs } from 'node:util'
import { Glob } from 'bun'
import { listOutliers, measure, render, type Source } from './names/figures.ts'

const USAGE = `bun run scripts/names.ts [DIRECTORY…] [--json] [--list]

Measures the names and the width of source files, .ts and .js (default: src): how many functions
begin with a verb, end in a preposition, or take five parameters or more, and how many lines are
wider than 100 columns. --list prints the functions that stand out, too.
`

await main()

async function main(): Promise<void> {
  const flag = { type: 'boolean', default: false } as const
  const options = { json: flag, list: flag, help: flag }
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  if (values.help) return void process.stdout.write(USAGE)
  const sources = await readSources(positionals.length > 0 ? positionals : ['src'])
  if (values.list) process.stdout.write(listOutliers(sources))
  const figures = measure(sources)
  process.stdout.write(values.json ? `${JSON.stringify(figures, null, 2)}\n` : render(figures))
}

/** Reads the source files below directories. Leaves out declarations, tests and generated data. */
async function readSources(directories: string[]): Promise<Source[]> {
  const paths = directories.flatMap(directory =>
    [...new Glob('**/*.{ts,js}').scanSync({ cwd: directory })].map(path => `${directory}/${path}`),
  )
  const written = paths.filter(path => !/\.(d|test|data)\.[tj]s$/.test(path)).sort()
  return Promise.all(written.map(async path => ({ path, text: await Bun.file(path).text() })))
}
