import { expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { createMessageBatch, readMessageResults } from '../../src/extensions/message-batches.ts'
import { openBatchHouse } from '../support/batches.ts'

const ask = (custom_id: string, content: string, model = 'sandbox/echo') => ({
  custom_id,
  params: { model, max_tokens: 100, messages: [{ role: 'user' as const, content }] },
})

interface ReadOptions {
  size: number
  /** What stands in place of each file. */
  contents?: Uint8Array
}

/** Has the gateway read its files in pieces of so many bytes. Returns those that are open. */
function watchReads({ blobs }: Gateway, { size, contents }: ReadOptions): Set<object> {
  const read = blobs.read.bind(blobs)
  const open = new Set<object>()
  blobs.read = async (...options) => {
    const whole = contents ?? (await new Response(await read(...options)).bytes())
    const name = {}
    let at = 0
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (at < whole.length) {
            controller.enqueue(whole.slice(at, at + size))
            at += size
          } else {
            open.delete(name)
            controller.close()
          }
        },
        cancel: () => void open.delete(name),
      },
      { highWaterMark: 0 },
    )
    open.add(name)
    return stream
  }
  return open
}

const readId = (line: Uint8Array) => JSON.parse(new TextDecoder().decode(line)).custom_id

test('a client that leaves while it reads results leaves no file open', async () => {
  const { gateway, actor, run } = await openBatchHouse()
  const { id } = await createMessageBatch(gateway, actor, {
    requests: [ask('a', 'Hi'), ask('b', 'Hi'), ask('c', 'Hi', 'nobody/nothing')],
  } as never)
  await run()
  const open = watchReads(gateway, { size: 64 })
  for (const lines of [0, 1, 2, 3]) {
    const results = await readMessageResults(gateway, actor, id)
    const read: string[] = []
    for (let i = 0; i < lines; i++) read.push(readId((await results.next()).value))
    await results.return(undefined)
    expect([lines, read.sort(), open.size]).toEqual([lines, ['a', 'b', 'c'].slice(0, lines), 0])
  }
  await gateway.close()
})

test('a long answer in a batch is read in a time that is linear in its length', async () => {
  const { gateway, actor, run } = await openBatchHouse()
  const { id } = await createMessageBatch(gateway, actor, { requests: [ask('a', 'Hi')] } as never)
  await run()
  const body = { content: [{ type: 'text', text: 'word é '.repeat(100_000) }] }
  const line = JSON.stringify({ custom_id: 'a', response: { status_code: 200, body } })
  const contents = new TextEncoder().encode(`${line}\n${line}`)
  gateway.blobs.size = async () => contents.length
  const { output_file_id } = (await gateway.store.batches.find(id)) ?? {}
  const file = await gateway.store.files.find(output_file_id ?? '')
  const known = { size_bytes: contents.length, sha256: null }
  gateway.store.files.find = async () => file && { ...file, ...known }
  watchReads(gateway, { size: 1_021, contents })
  const { split } = String.prototype
  let searched = 0
  String.prototype.split = function (this: string, ...options: [never]) {
    searched += this.length
    return split.apply(this, options)
  }
  const read: unknown[] = []
  try {
    for await (const one of await readMessageResults(gateway, actor, id))
      read.push(JSON.parse(new TextDecoder().decode(one)))
  } finally {
    String.prototype.split = split
  }
  const result = { type: 'succeeded', message: body }
  expect(read).toEqual([
    { custom_id: 'a', result },
    { custom_id: 'a', result },
  ])
  expect(searched).toBeLessThan(2 * contents.length)
  await gateway.close()
})
