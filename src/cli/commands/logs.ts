import { invalid } from '../../base/errors.ts'
import { toPrintable, toPrintableJson } from '../../base/printable.ts'
import type { Refusal } from '../../observability/refusals.ts'
import { type Flags, fill, fillNamed, NUMBER, offer } from '../fields.ts'
import { KEYS } from '../names.ts'
import { defineVerbs, withInput } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print, printNote } from '../output.ts'

const verb = defineVerbs(() => import('../../observability/refusals.ts'))

const STATUS = { parse: (text: string) => (/^[45]xx$/.test(text) ? text : parseNumber(text)) }

const LOGS = [
  fill('id', '--id <id>', 'the call with this request id'),
  fillNamed('key_hash', '--key <key>', 'calls of this API key, by hash, name or label', KEYS),
  fill('status', '--status <status>', 'calls with this HTTP status: 429, 5xx', STATUS),
  fill('limit', '--limit <n>', 'how many (20)', NUMBER),
  fill('cursor', '--cursor <cursor>', 'the page after this one, as the list before has named it'),
  { ...offer('--all', 'all of them'), pages: 'core' as const },
  offer('--follow', 'only those from now on, each when it is refused, until Ctrl-C'),
]

/** `gateway logs`: calls that were refused before any provider was asked. */
export const createLogsCommand = () =>
  verb(
    'logs',
    'list calls that were refused before any provider was asked',
    LOGS,
    (core, flags: Flags) =>
      withInput(core.RefusalQuery, async (gateway, _, query) => {
        if (!flags.follow) return core.listRefusals(gateway, query)
        refusePages(flags)
        const stop = waitForEnd()
        printNote('Waiting for refused calls. Ctrl-C ends')
        for await (const refusal of core.followRefusals(gateway, query, () => isTimeToLook(stop)))
          await printRefusal(flags, refusal)
        return undefined
      }),
  ).printAs((answer, { printList }) => {
    const refusals = answer?.data ?? []
    const areCounted = refusals.some(({ left_out }) => left_out > 0)
    printList(
      ['WHEN', 'KEY', 'STATUS', 'MODEL OR PATH', 'MESSAGE', ...(areCounted ? ['ALIKE'] : []), 'ID'],
      refusals.map(({ created_at, key, status, model, path, message, left_out, id }) => {
        const alike = left_out > 0 ? `+${left_out}` : null
        return [created_at, key, status, model ?? path, message, ...(areCounted ? [alike] : []), id]
      }),
    )
    if (areCounted)
      printNote('ALIKE: refusals of that hour with the same status that have no line of their own')
  })

function refusePages({ limit, cursor, all }: Flags): void {
  if ([limit, cursor, all].some(one => one !== undefined))
    throw invalid('--follow: expected no --limit, --cursor or --all beside it')
}

async function printRefusal({ json, field }: Flags, refusal: Refusal): Promise<void> {
  if (field === undefined) return print(json ? toPrintableJson(refusal) : renderLine(refusal))
  const { renderShape } = await import('../shapes.ts')
  for (const line of renderShape(refusal, field)) print(line)
}

const renderLine = ({ created_at, key, status, model, path, message, id }: Refusal): string =>
  [created_at, key ?? '-', status, model ?? path, message, id]
    .map(cell => toPrintable(String(cell)))
    .join('  ')

/** In milliseconds, between two looks at what was written. */
const LOOK_INTERVAL = 250

/** Waits until it is time to look again. Returns false when it is time to end. */
const isTimeToLook = (stop: Promise<false>): Promise<boolean> =>
  Promise.race([stop, Bun.sleep(LOOK_INTERVAL).then(() => true)])

/** Waits for Ctrl-C, or for a reader that closes its pipe. */
function waitForEnd(): Promise<false> {
  const { promise, resolve } = Promise.withResolvers<false>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve(false))
  process.stdout.once('error', () => resolve(false))
  return promise
}
