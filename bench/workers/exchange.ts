import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { CORES } from '../contenders.ts'

/** What a call's way to the owner of the ledger costs, in microseconds of CPU on each side. */
export interface ExchangeCosts {
  worker: number
  owner: number
}

/** Measures the way of records from one process to another, so many at once, over a socket. */
export async function measureExchange(home: string, batch: number): Promise<ExchangeCosts> {
  const socket = join(home, `owner-${batch}.sock`)
  const owner = startPart('owner', CORES.contender, [socket])
  await readLine(owner)
  const worker = startPart('worker', CORES.tools, [socket, String(batch)])
  const costs = JSON.parse(await readLine(worker)) as ExchangeCosts
  for (const part of [worker, owner]) {
    part.kill()
    await part.exited
  }
  rmSync(socket, { force: true })
  return costs
}

type Part = Bun.Subprocess<'ignore', 'pipe', 'inherit'>

const startPart = (name: string, core: number, words: string[]): Part =>
  Bun.spawn(
    [
      ...['taskset', '-c', String(core), process.execPath],
      ...[join(import.meta.dir, `${name}.ts`), ...words],
    ],
    { stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' },
  )

/** Reads the first line of a part. */
async function readLine({ stdout }: Part): Promise<string> {
  const reader = stdout.getReader()
  let text = ''
  while (!text.includes('\n')) {
    const { value, done } = await reader.read()
    if (done) throw new Error('A part of the benchmark ended early')
    text += Buffer.from(value).toString()
  }
  reader.releaseLock()
  return text.slice(0, text.indexOf('\n'))
}
