import { afterEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { measureBestLoopUse } from '../support/event-loop.ts'
import { type LoopStage, openLoopStage } from '../support/tool-loop.ts'
import { PDF } from '../support/typed-files.ts'

let stage: LoopStage | undefined
let next: Json = {}
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const open = async (config: Json = {}): Promise<LoopStage> => {
  stage = await openLoopStage(
    ({ results }) =>
      results.length > 0
        ? { answer: { text: 'Done.', finish: 'stop' } }
        : {
            answer: {
              calls: [{ id: 'a', name: 'files', input: JSON.stringify(next) }],
              finish: 'tool_calls',
            },
          },
    { config },
  )
  return stage
}

/** Has the model use the tool once. Returns what it was told, and the item. */
async function use(at: LoopStage, input: Json) {
  next = input
  at.heard.length = 0
  const { status, uses, error } = await at.ask('responses', { tools: [{ type: 'gateway:files' }] })
  const text = at.heard.at(-1)?.results[0]?.text ?? ''
  return { status, error, text, item: uses[0] ?? {} }
}

async function* pieces(content: string | Uint8Array) {
  yield typeof content === 'string' ? new TextEncoder().encode(content) : content
}
const put = async (at: LoopStage, content: string | Uint8Array, filename: string, more = {}) =>
  (await storeFile(at.gateway, getOperator(at.gateway), { filename, ...more }, pieces(content))).id
const readAll = async ({ gateway }: LoopStage) => {
  const files = await gateway.store.files.all()
  return files.map(({ filename, downloadable, size_bytes }) => [filename, downloadable, size_bytes])
}

describe('files', () => {
  test('are edited in a time that grows with their length alone', async () => {
    const at = await open()
    const [text, end] = ['a'.repeat(2_000_000), `b${'a'.repeat(50_000)}`]
    await put(at, `${text}${end}`, 'long.txt')
    const edit = { operation: 'edit', filename: 'long.txt' }
    const { result: missing, longest } = await measureBestLoopUse(250, () =>
      use(at, { ...edit, old_text: `a${end}aa` }),
    )
    expect([missing.text, longest < 250]).toEqual(['old_text: the file does not have it', true])
    const made = await use(at, { ...edit, old_text: end, new_text: 'ä' })
    expect(JSON.parse(made.text)).toMatchObject({ size_bytes: 2_000_002 })
  })

  test('that a model writes can be listed, read and edited; an edit is another file', async () => {
    const at = await open()
    const written = await use(at, { operation: 'write', filename: 'a/b.txt', content: 'One two' })
    expect(written.item).toMatchObject({ status: 'completed', filename: 'a/b.txt' })
    const { file_id } = JSON.parse(written.text)
    expect((await use(at, { operation: 'list' })).text).toContain(file_id)
    const read = await use(at, { operation: 'read', filename: 'a/b.txt' })
    expect(read.text).toContain('<untrusted_content source="stored file a/b.txt">\nOne two\n')
    expect(read.item).toMatchObject({ file_id, filename: 'a/b.txt', operation: 'read' })
    const edited = await use(at, { operation: 'edit', file_id, old_text: 'two', new_text: '2' })
    expect(JSON.parse(edited.text)).toMatchObject({ source_file_id: file_id, size_bytes: 5 })
    expect((await use(at, { operation: 'read', file_id })).text).toContain('One two')
    expect((await use(at, { operation: 'read', filename: 'a/b.txt' })).text).toContain('One 2')
    expect(await readAll(at)).toEqual([
      ['a/b.txt', true, 7],
      ['a/b.txt', true, 5],
    ])
  })

  test.each(['of other workspaces', 'whose time is over'])('%s are not there', async which => {
    const at = await open()
    const other = await createWorkspace(at.gateway, getOperator(at.gateway), {
      ...{ name: 'Other', slug: 'other' },
    })
    const isOver = which === 'whose time is over'
    const more = isOver ? { expires_after: 0 } : { workspace_id: other.data.id }
    const id = await put(at, 'Secret', 'secret.txt', more)
    const text = [
      await use(at, { operation: 'read', file_id: id }),
      await use(at, { operation: 'read', filename: 'secret.txt' }),
      await use(at, { operation: 'edit', file_id: id, old_text: 'S', new_text: 's' }),
      await use(at, { operation: 'list' }),
    ].map(one => one.text)
    expect(text[0]).toBe(`There is no file ${id}`)
    expect(text[1]).toBe('There is no file named secret.txt')
    expect(text[2]).toBe(`There is no file ${id}`)
    expect(text[3]).not.toContain(id)
  })

  test('are bounded by the quota of the workspace, and the call goes on', async () => {
    const at = await open({ files: { quota_mib: 1 } })
    await put(at, 'x'.repeat(1024 * 1024 - 3), 'large.txt')
    const { status, text, item } = await use(at, {
      ...{ operation: 'write', filename: 'a.txt', content: 'Hello' },
    })
    expect([status, item]).toMatchObject([200, { status: 'incomplete', error: text }])
    expect(text).toStartWith('It failed: ')
    expect(await readAll(at)).toHaveLength(1)
  })

  test('are read by content filters before a model sees them', async () => {
    const at = await open()
    const operator = getOperator(at.gateway)
    const { data } = await createGuardrail(at.gateway, operator, {
      name: 'g',
      content_filters: [{ pattern: 'harvest', action: 'block' }],
    })
    await assignKeys(at.gateway, operator, data.id, { key_hashes: [at.key.hash] })
    await put(at, 'The harvest is small.', 'notes.txt')
    const { error } = await use(at, { operation: 'read', filename: 'notes.txt' })
    expect(error).not.toBeNull()
    expect(at.heard).toHaveLength(1)
  })

  test('that are no text are not read', async () => {
    const at = await open()
    await put(at, PDF, 'a.pdf')
    const { text } = await use(at, { operation: 'read', filename: 'a.pdf' })
    expect(text).toBe('The file is no text, but application/pdf')
  })

  test.each([
    [{ operation: 'delete' }, 'operation: expected one of list, read, write, edit'],
    [{}, 'operation: expected'],
    [{ operation: 'read' }, 'filename: expected a text'],
    [{ operation: 'read', file_id: 7 }, 'filename: expected a text'],
    [{ operation: 'write', filename: 'a.txt' }, 'content: expected a text'],
    [{ operation: 'write', filename: 'a.txt', content: '' }, 'content: expected a text'],
    [{ operation: 'write', filename: '../a', content: 'Hi' }, 'It failed: filename: expected'],
    [{ operation: 'edit', filename: 'twice.txt', old_text: 'ab' }, 'has it more than once'],
    [{ operation: 'edit', filename: 'twice.txt', old_text: 'x' }, 'does not have it'],
    [{ operation: 'edit', filename: 'twice.txt' }, 'old_text: expected a text'],
    [
      { operation: 'edit', filename: 'twice.txt', old_text: 'abab', new_text: 7 },
      'new_text: expected a text',
    ],
    [
      { operation: 'edit', filename: 'twice.txt', old_text: 'abab', new_text: '' },
      'It failed: file: expected a file that is not empty',
    ],
  ])('with %j are an error that the model is told', async (input, told) => {
    const at = await open()
    await put(at, 'abab', 'twice.txt')
    const { status, text, item } = await use(at, input)
    expect([status, text, item.status]).toEqual([200, expect.stringContaining(told), 'incomplete'])
    expect(await readAll(at)).toHaveLength(1)
  })
})
