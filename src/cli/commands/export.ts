import { Option } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import type { GenerationListQuery } from '../../observability/generations/filter.ts'
import type { getGeneration } from '../../observability/generations.ts'
import type { Actor } from '../../resources/actor.ts'
import { renderCsvRow } from '../csv.ts'
import { type Fields, type Flags, fill, fillNamed, PERIOD } from '../fields.ts'
import { KEYS } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { write } from '../output.ts'
import { openRowProgress } from '../progress.ts'

const verb = defineVerbs(async () => ({
  ...(await import('../../observability/generations.ts')),
  ...(await import('../../observability/generations/filter.ts')),
}))

const FORMAT: Fields = {
  options: [
    new Option('--format <format>', 'one JSON object a line, or CSV')
      .choices(['ndjson', 'csv'])
      .default('ndjson'),
  ],
}

const FILTERS = [
  FORMAT,
  fillNamed('key_hash', '--key <key>', 'calls of this API key, by hash, name or label', KEYS),
  fill('model', '--model <id>', 'calls of this model'),
  fill('provider', '--provider <name>', 'calls that this provider answered'),
  fill(
    'status',
    '--status <status>',
    'ok, error, cancelled, an HTTP status, 4xx, 5xx or an error type',
  ),
  ...PERIOD,
  fill('app', '--app <name>', 'calls of this app, by its address or title'),
  fill('session_id', '--session <id>', 'calls of this session'),
]

type Call = Awaited<ReturnType<typeof getGeneration>>['data']
type List = (
  gateway: Gateway,
  actor: Actor,
  query: GenerationListQuery,
) => Promise<{ data: Call[]; next_cursor: string | null }>

/** `gateway export`: records as files for other programs, on stdout. */
export const createExportCommand = () =>
  defineNoun('export', 'records as files for other programs, on stdout', [
    verb('generations', 'write all calls, newest first', FILTERS, (core, flags) => {
      const { format, json, field } = flags
      const refused = json ? '--json' : field === undefined ? undefined : '--field'
      if (refused && format === 'csv')
        throw invalid(`${refused}: expected no --format csv beside it`)
      return withInput(core.GenerationListQuery, async (gateway, actor, query) =>
        writeCalls(core.listGenerations, await chooseRenderer(flags), gateway, actor, query),
      )
    }).printAs(() => undefined),
  ])

/** How many calls are read at once. */
const AT_ONCE = 500

/** Renders calls that are read together, given how many were written before them. */
type Renderer = (calls: Call[], written: number) => string[]

async function chooseRenderer({ format, field }: Flags): Promise<Renderer> {
  if (format === 'csv') return createTableRenderer()
  if (field === undefined) return calls => calls.map(call => `${JSON.stringify(call)}\n`)
  const { renderRow, renderShape } = await import('../shapes.ts')
  // A field that no call at all has is noticed among the first.
  const render = (calls: Call[], written: number) =>
    written === 0 ? renderShape({ data: calls }, field) : calls.map(call => renderRow(call, field))
  return (calls, written) => render(calls, written).map(line => `${line}\n`)
}

/** Creates a renderer of CSV, whose columns are those of the first call. */
function createTableRenderer(): Renderer {
  let columns: string[] | undefined
  const renderRow = (call: Call) =>
    renderCsvRow((columns ?? []).map(name => call[name as keyof Call]))
  return calls => {
    if (columns || !calls[0]) return calls.map(renderRow)
    columns = Object.keys(calls[0])
    return [renderCsvRow(columns), ...calls.map(renderRow)]
  }
}

async function writeCalls(
  list: List,
  render: Renderer,
  gateway: Gateway,
  actor: Actor,
  query: GenerationListQuery,
): Promise<undefined> {
  let cursor: string | null | undefined
  let written = 0
  // Where the calls themselves are on the terminal, nothing must come between them.
  const progress = openRowProgress({ json: process.stdout.isTTY === true })
  do {
    const page = { ...query, limit: AT_ONCE, ...(cursor ? { cursor } : {}) }
    const { data, next_cursor } = await list(gateway, actor, page)
    for (const line of render(data, written)) await write(line)
    written += data.length
    progress.show(written, null)
    cursor = next_cursor
  } while (cursor)
  progress.end()
}
