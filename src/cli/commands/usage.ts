import { Option } from 'commander'
import { USAGE_GROUPS } from '../../core/telemetry/usage.ts'
import { CUT, type Fields, fill, fillNamed } from '../fields.ts'
import { KEYS } from '../names.ts'
import { defineVerbs, withInput } from '../noun.ts'
import { formatDollars } from '../output.ts'

const verb = defineVerbs(() => import('../../core/telemetry/usage.ts'))

const BY: Fields = {
  options: [new Option('--by <group>', 'one row for each').choices(USAGE_GROUPS).default('day')],
  read: ({ by }) => ({ by }),
}

// A day alone is its beginning.
const TIME = {
  read: (text: string) => (/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text),
}

const FIELDS = [
  BY,
  fill('since', '--since <time>', 'from this day or time on, in UTC', TIME),
  fill('until', '--until <time>', 'before this day or time', TIME),
  fillNamed('key_hash', '--key <key>', 'calls of this API key, by hash, name or label', KEYS),
  fill('model', '--model <id>', 'calls of this model'),
  fill('provider', '--provider <name>', 'calls that this provider answered'),
  CUT,
]

/** `gateway usage`: what calls cost and took. */
export const createUsageCommand = () =>
  verb('usage', 'sum cost and tokens by day, key, model or provider', FIELDS, core =>
    withInput(core.UsageQuery, (gateway, _, query) => core.summarizeUsage(gateway, query)),
  ).printAs(({ data, total }, { gateway: { memory }, flags, printList }) => {
    const nameKey = (hash: string | null) => (hash && memory.keys.get(hash)?.name) || hash
    const rows = data.map(sum => [
      flags.by === 'key' ? nameKey(sum.group) : sum.group,
      ...renderSum(sum),
    ])
    const all = data.length > 1 ? [['total', ...renderSum(total)]] : []
    printList(
      [
        String(flags.by).toUpperCase(),
        'CALLS',
        'INPUT TOKENS',
        'OUTPUT TOKENS',
        'COST',
        'OWN KEYS',
      ],
      [...rows, ...all],
    )
  })

interface Shown {
  calls: number
  input_tokens: number
  output_tokens: number
  cost: number
  byok_cost: number
}

const renderSum = (sum: Shown) => [
  sum.calls,
  sum.input_tokens,
  sum.output_tokens,
  formatDollars(sum.cost),
  formatDollars(sum.byok_cost),
]
