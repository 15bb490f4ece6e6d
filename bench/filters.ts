import { join } from 'node:path'
import { BUILTINS, type BuiltinSlug } from '../src/core/policy/filters/builtins.ts'
import { type FilterRule, openFilters } from '../src/core/policy/filters.ts'

/*
 * `bun run bench/filters.ts`: what each built-in filter costs for a megabyte of prose, in
 * milliseconds of this process. Nothing else should run.
 */

const MEGABYTE = 1_000_000
const ROUNDS = 5

const document = await Bun.file(join(import.meta.dir, '../ARCHITECTURE.md')).text()
const prose = document.repeat(Math.ceil(MEGABYTE / document.length)).slice(0, MEGABYTE)

for (const slug of Object.keys(BUILTINS) as BuiltinSlug[]) {
  const best = await measureBest({ slug })
  process.stdout.write(`${slug.padEnd(24)} ${best.toFixed(1).padStart(7)} ms/MB\n`)
}

/** Returns the shortest time of several rounds. The first ones only warm up. */
async function measureBest(rule: Partial<FilterRule>): Promise<number> {
  const filters = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'flag', ...rule } as FilterRule,
  ])
  const filterSet = filters.getInputFilters('user')
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = process.cpuUsage()
    filterSet?.find(prose)
    const { user, system } = process.cpuUsage(startedAt)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}
