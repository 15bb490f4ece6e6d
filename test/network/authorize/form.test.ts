import { expect, test } from 'bun:test'
import { FORM_TYPE, writeForm } from '../../../src/network/authorize.ts'
import { requireBytes } from '../../support/outgoing.ts'

const read = (pieces: Uint8Array[]) =>
  new Response(Buffer.concat(pieces), { headers: { 'content-type': FORM_TYPE } }).formData()

const PIXEL = Buffer.from('iVBORw0KGgo=', 'base64')
const DATA_URL = `data:image/png;base64,${PIXEL.toString('base64')}`

const write = (body: Record<string, unknown>) =>
  writeForm({ path: '/', body }, ['image[]']).map(requireBytes)

test('has texts as they are, whatever they contain, and other values as JSON', async () => {
  const prompt = `${DATA_URL}\r\n--gateway\r\ncontent-disposition: form-data; name="n"\r\n\r\n9 ✓`
  const form = await read(write({ prompt, n: 2, seed: undefined, more: { a: [1] } }))
  expect([...form.entries()]).toEqual([
    ['prompt', prompt],
    ['n', '2'],
    ['more', '{"a":[1]}'],
  ])
})

test('has a field for each item of a list', async () => {
  const form = await read(write({ 'timestamp_granularities[]': ['word', 'segment'] }))
  expect(form.getAll('timestamp_granularities[]')).toEqual(['word', 'segment'])
})

test('has a file for each data URL, with its type and bytes', async () => {
  const svg = 'data:image/svg+xml,%3Csvg/%3E'
  const form = await read(write({ 'image[]': [DATA_URL, svg] }))
  const files = form.getAll('image[]') as File[]
  expect(files.map(({ name, type }) => [name, type])).toEqual([
    ['image-0.png', 'image/png'],
    ['image-1.svg', 'image/svg+xml'],
  ])
  expect(Buffer.from((await files[0]?.arrayBuffer()) as ArrayBuffer)).toEqual(PIXEL)
  expect(await files[1]?.text()).toBe('<svg/>')
})

test('refuses a data URL that cannot be read', () => {
  expect(() => write({ 'image[]': ['data:image/png;base64,???'] })).toThrow('cannot be read')
})

test('has memory of its own in each piece, so that it can be given back', () => {
  for (const piece of write({ prompt: 'A cat', 'image[]': [DATA_URL] }))
    expect(piece.byteLength).toBe(piece.buffer.byteLength)
})
