import { expect, test } from 'bun:test'
import { Cancellation } from '../../../../src/base/cancellation.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { Asker } from '../../../../src/base/job-worker.ts'
import { hashFile, parseFiles } from '../../../../src/extensions/plugins/file-parser/parsing.ts'
import { buildTextCall } from '../../../support/call.ts'

test('a file is read for the key of its call, as long as that waits for it', async () => {
  const url = `data:application/pdf;base64,${Buffer.from('%PDF-1.7').toString('base64')}`
  const file = { type: 'file' as const, file: { file_data: url } }
  const { messages } = buildTextCall({ messages: [{ role: 'user', blocks: [file] }] })
  const cancellation = new Cancellation()
  const askers: (Asker | undefined)[] = []
  const world = {
    config: { plugins: { read_documents_mib: 0 } },
    documents: {
      read: async (_: Uint8Array, __: string, asker?: Asker) => {
        askers.push(asker)
        return { type: 'pdf', text: 'Hi', isCut: false }
      },
    },
  }
  const run = { media: new Map(), isDry: false, actor: { key_hash: 'k' }, cancellation }
  const options = { leavesPdfs: false, recognizesPdfs: false, mayFail: false, known: new Map() }
  await parseFiles(world as never, run as never, { ...options, messages })
  expect([askers.length, askers[0]?.owner, askers[0]?.isGone()]).toEqual([1, 'k', false])
  cancellation.cancel(new GatewayError('timeout', 'It is gone'))
  expect(askers[0]?.isGone()).toBe(true)
})

test('the words of a file count wherever it stands, as a model gets them so often', async () => {
  const file_data = 'https://example.com/long.txt'
  const words = 'x'.repeat(12 * 1024 * 1024)
  const options = {
    ...{ leavesPdfs: false, recognizesPdfs: false, mayFail: false },
    known: new Map([
      [hashFile(file_data), { type: 'text', blocks: [{ type: 'text' as const, text: words }] }],
    ]),
  }
  const file = { type: 'file' as const, file: { file_data } }
  const parse = (count: number) => {
    const blocks = Array.from({ length: count }, () => file)
    const { messages } = buildTextCall({ messages: [{ role: 'user', blocks }] })
    const run = { media: new Map(), isDry: false }
    return parseFiles({} as never, run as never, { ...options, messages })
  }
  expect((await parse(2)).messages[0]?.blocks).toHaveLength(2)
  await expect(parse(3)).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('at most 33554432 characters'),
  })
})
