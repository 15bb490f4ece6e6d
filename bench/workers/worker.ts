/* The worker's side: hands records to the owner, so many at once, and waits until it has them. */

import { argv } from 'node:process'

const [path = '', batch = '1'] = argv.slice(2)
const AT_ONCE = Number(batch)
const CALLS = 20_000
const WARM_UP = 10_000

/** A record of the usual size, as the log of records has it. */
const VALUES = Array.from({ length: 70 }, (_, i) =>
  i % 3 === 0 ? i * 1_000 : `value-${i}-of-a-record`,
)
/** Rendered once: a gateway without workers renders it as well. */
const RECORD = `${JSON.stringify({ record: VALUES, charge: null })}\n`

let waiting: (() => void) | null = null
let acknowledged = 0
let ownerCpu = 0

const socket = await Bun.connect({
  unix: path,
  socket: {
    data(_, piece) {
      for (const line of piece.toString().split('\n').slice(0, -1)) {
        const [count, cpu] = line.split(' ').map(Number)
        acknowledged += count ?? 0
        ownerCpu = cpu ?? 0
      }
      if (acknowledged >= AT_ONCE) waiting?.()
    },
  },
})

await send(WARM_UP)
const before = { own: process.cpuUsage(), owner: ownerCpu }
await send(CALLS)
const { user, system } = process.cpuUsage(before.own)
const costs = { worker: (user + system) / CALLS, owner: (ownerCpu - before.owner) / CALLS }
process.stdout.write(`${JSON.stringify(costs)}\n`)

async function send(count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += AT_ONCE) {
    acknowledged = 0
    const done = new Promise<void>(resolve => {
      waiting = resolve
    })
    socket.write(RECORD.repeat(AT_ONCE))
    await done
  }
}
