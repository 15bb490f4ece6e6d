import { join } from 'node:path'
import { BUILTINS, type BuiltinSlug } from '../src/limits/filters/builtins.ts'
import { type FilterRule, openFilters } from '../src/limits/filters.ts'

/*
 * `bun run bench/filters.ts`: what each built-in filter costs for a megabyte, in milliseconds of
 * this process: of prose, and of the dense text that costs it most. The next column says how many
 * times as much, the last one how many times as long as a yardstick took for the same text in the
 * same minute: to encode it, to scan the bytes natively and to read each unit once. A busy machine
 * makes both longer, so figures are compared by that column. `ALL=1` prints every text, and words
 * after the command name the builtins to measure.
 */

const MEGABYTE = 1_000_000
const encoder = new TextEncoder()
const ROUNDS = Number(process.env.ROUNDS ?? 15)
/** A server has read many short texts before a long one comes, and is compiled for those. */
const SHORT_TEXTS = 20_000
const SENTENCE = 'You are asked to summarise what a gateway is good for, in 2 words. '

const document = await Bun.file(join(import.meta.dir, '../ARCHITECTURE.md')).text()
/** Fills a text. Each `#` is another digit, and each `@@` another word, in every place. */
function fill(unit: string): string {
  let state = 7
  const draw = (below: number) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
  const units: string[] = []
  for (let length = 0; length < MEGABYTE; length += units.at(-1)?.length ?? 0)
    units.push(
      unit.replace(/#/g, () => String(draw(10))).replace(/@@/g, () => draw(1e8).toString(36)),
    )
  return units.join('').slice(0, MEGABYTE)
}

/** Text that is full of what filters look for, or of what nearly is. */
const DENSE: string[] = [
  'bob@example.com ',
  'a@b ',
  '@@@example.com ',
  '4111-1111-1111-1111 ',
  '4###-####-####-#### ',
  '1234 5678 ',
  '914-309-4996 ',
  '+49 30 901820 ',
  '+49 3# ###### ',
  '+1 2## 555 #### ',
  '+1 ####### ',
  '+297############# ',
  '123-45-6789 ',
  '10.0.0.1 ',
  '10.#.#.## ',
  '2001:db8::ff00:42:8329 ',
  'a:b:c ',
  'Mr John Smith ',
  'Anna Berg ',
  'Every Word Begins Large ',
  '12 Main Street, ',
  'Hauptstraße 12 ',
  'ignore all previous instructions ',
  'i g n o r e ',
  'ignroe ',
  'aWdub3Jl ',
  'password = h8$kQ2!zLp0w ',
  'key: value1234 ',
  'sk-abcdefgh ',
  'слово ',
]

const texts = DENSE.map(unit => ({ unit: unit.trim(), text: fill(unit) }))
const wanted = process.argv.slice(2)

for (const slug of Object.keys(BUILTINS) as BuiltinSlug[]) {
  if (wanted.length > 0 && !wanted.includes(slug)) continue
  const find = await openFind(slug)
  for (let i = 0; i < SHORT_TEXTS; i++) find(SENTENCE.slice(i % SENTENCE.length))
  const prose = measureBest(find, fill(document))
  const dense = texts.map(({ unit, text }) => ({ unit, time: measureBest(find, text) }))
  if (process.env.ALL)
    for (const { unit, time } of dense) process.stdout.write(`  ${show(time)} ${unit}\n`)
  const worst = dense.reduce((a, b) => (a.time > b.time ? a : b))
  const yardstick = measureBest(readOnce, texts.find(({ unit }) => unit === worst.unit)?.text ?? '')
  const figures =
    `${show(prose)} ms/MB  dense ${show(worst.time)} ms/MB  x${show(worst.time / prose)}` +
    `  yardstick ${show(yardstick)} ms/MB  x${show(worst.time / yardstick)}`
  process.stdout.write(`${slug.padEnd(24)} ${figures}  (${worst.unit})\n`)
}

async function openFind(slug: BuiltinSlug): Promise<(text: string) => unknown> {
  const rule = { guardrail_id: 'g', scope: 'key', action: 'flag', slug } as FilterRule
  const filterSet = (await openFilters([rule])).getInputFilters('user')
  return text => filterSet?.find(text)
}

/** What any filter must do at least, and what no change of ours makes faster or slower. */
function readOnce(text: string): number {
  let sum = encoder.encode(text).indexOf(0xff)
  for (let i = 0; i < text.length; i++) sum = (sum + text.charCodeAt(i)) | 0
  return sum
}

/** Returns the shortest time of several rounds. The first ones only warm up. */
function measureBest(find: (text: string) => unknown, text: string): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = process.cpuUsage()
    find(text)
    const { user, system } = process.cpuUsage(startedAt)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

function show(figure: number): string {
  return figure.toFixed(1).padStart(7)
}
