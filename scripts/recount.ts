import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SEED } from '../test/support/random.ts'
import { recount } from '../test/support/recount.ts'

const USAGE = `bun run recount [--calls N] [--seed N]

Makes N calls (3000) of all kinds over 42 days that a faked clock lets pass, counts them in a ledger
of its own, and compares that with every surface: keys, workspaces, credits, activity, analytics by
each dimension, usage by each grouping, CSV, exports, metrics and destinations; also after repricing,
recomputing and retention. Prints what differs, and exits with 1 if anything does.
`

await main()

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return
  const data = mkdtempSync(join(tmpdir(), 'gateway-recount-'))
  const { calls, seed } = options
  const found = await recount(calls, seed, data).finally(() =>
    rmSync(data, { recursive: true, force: true }),
  )
  for (const difference of found) process.stdout.write(`${difference}\n`)
  process.stdout.write(`${calls} calls, seed ${seed}: ${found.length} differences\n`)
  // At once: what renders deliveries in a Worker would keep the process alive.
  process.exit(found.length === 0 ? 0 : 1)
}

function readOptions(): { calls: number; seed: number } | undefined {
  try {
    const number = { type: 'string' } as const
    const { values } = parseArgs({ options: { calls: number, seed: number } })
    const calls = Number(values.calls ?? 3_000)
    const seed = Number(values.seed ?? SEED)
    if (!(Number.isInteger(calls) && calls > 0 && Number.isInteger(seed) && seed > 0))
      throw new Error('--calls, --seed: expected a whole number from 1 on')
    return { calls, seed }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}
