import { resolve } from 'node:path'
import { AGENTS, DEFAULT_MODEL, renderBlock } from '../src/cli/commands/agent.ts'
import { createProgram } from '../src/cli/main.ts'
import { renderMarkdown } from '../src/cli/manual/markdown.ts'
import { listPages } from '../src/cli/manual.ts'
import { Config } from '../src/config.ts'
import { listSettings, renderSettings } from './docs/settings.ts'

const USAGE = `bun run scripts/docs.ts [--check]

Writes the table of every setting into docs/configuration.md, the reference of every command into
docs/reference.md, and the lines that start each agent into docs/agents.md. --check changes nothing, and fails if they are others there.
`

const DOCS = resolve(import.meta.dir, '../docs')
const TABLE = /(<!-- settings: bun run docs -->\n)[\s\S]*?(<!-- \/settings -->)/
const BLOCKS = /(<!-- agents: bun run docs -->\n)[\s\S]*?(<!-- \/agents -->)/

await main()

async function main(): Promise<void> {
  const [option] = process.argv.slice(2)
  if (option !== undefined && option !== '--check') return fail(USAGE, 2)
  const isChecked = option === '--check'
  await update('configuration.md', isChecked, renderConfiguration)
  await update('reference.md', isChecked, renderReference)
  await update('agents.md', isChecked, renderAgents)
}

async function update(
  name: string,
  isChecked: boolean,
  render: (written: string) => string | Promise<string>,
): Promise<void> {
  const file = Bun.file(resolve(DOCS, name))
  const written = (await file.exists()) ? await file.text() : ''
  const wanted = await render(written)
  if (wanted === written) return
  if (isChecked) return fail(`docs/${name}: run \`bun run docs\`\n`, 1)
  await Bun.write(file, wanted)
}

function renderConfiguration(written: string): string {
  const table = renderSettings(listSettings(Config))
  return written.replace(TABLE, (_, begin, end) => `${begin}\n${table}\n${end}`)
}

function renderAgents(written: string): string {
  const target = { url: 'http://127.0.0.1:8080', model: DEFAULT_MODEL }
  const blocks = Object.entries(AGENTS).map(
    ([name, agent]) =>
      `### ${agent.title}\n\nnpm: \`${agent.package}\`; \`gateway agent ${name}\`.\n\n` +
      `\`\`\`sh\n${renderBlock(agent, target)}\n\`\`\`\n`,
  )
  return written.replace(BLOCKS, (_, begin, end) => `${begin}\n${blocks.join('\n')}\n${end}`)
}

async function renderReference(): Promise<string> {
  const program = await createProgram()
  return renderMarkdown(listPages(program))
}

function fail(message: string, code: number): void {
  process.stderr.write(message)
  process.exitCode = code
}
