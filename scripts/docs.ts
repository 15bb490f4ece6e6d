import { resolve } from 'node:path'
import { Config } from '../src/core/config.ts'
import { listSettings, renderSettings } from './docs/settings.ts'

const USAGE = `bun run scripts/docs.ts [--check]

Writes the table of every setting into docs/configuration.md. --check changes nothing, and fails if
the table there is another one.
`

const FILE = resolve(import.meta.dir, '../docs/configuration.md')
const TABLE = /(<!-- settings: bun run docs -->\n)[\s\S]*?(<!-- \/settings -->)/

await main()

async function main(): Promise<void> {
  const [option] = process.argv.slice(2)
  if (option !== undefined && option !== '--check') return fail(USAGE, 2)
  const written = await Bun.file(FILE).text()
  const table = renderSettings(listSettings(Config))
  const wanted = written.replace(TABLE, (_, begin, end) => `${begin}\n${table}\n${end}`)
  if (wanted === written) return
  if (option === '--check') return fail('docs/configuration.md: run `bun run docs`\n', 1)
  await Bun.write(FILE, wanted)
}

function fail(message: string, code: number): void {
  process.stderr.write(message)
  process.exitCode = code
}
