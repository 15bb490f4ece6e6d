import { expect, test } from 'bun:test'
import { hashFile, parseFiles } from '../../../../src/extensions/plugins/file-parser/parsing.ts'
import { buildTextCall } from '../../../support/call.ts'

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
