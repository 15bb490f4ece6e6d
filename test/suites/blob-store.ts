import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BlobPlace, BlobStore } from '../../src/resources/files/blobs.ts'

const WORKSPACE = '019aa000-0000-7000-8000-0000000000aa'
const OTHER = '019aa000-0000-7000-8000-0000000000bb'
const place = (end: string, workspace_id = WORKSPACE): BlobPlace => ({
  workspace_id,
  name: end.padStart(32, '0'),
})
const kept = async () => undefined

/** Reads a whole blob. */
const readText = async (store: BlobStore, at: BlobPlace) =>
  new Response(await store.read(at)).text()

/** Lists the names of all blobs, sorted. */
async function listNames(store: BlobStore): Promise<string[]> {
  const names: string[] = []
  for await (const { workspace_id, name } of store.list()) names.push(`${workspace_id}/${name}`)
  return names.sort()
}

async function write(store: BlobStore, at: BlobPlace, text: string): Promise<void> {
  const draft = await store.create(at)
  await draft.write(Buffer.from(text))
  await draft.keep(kept)
}

/**
 * Lists the notes of what is being written or deleted, without the directories that they are in;
 * a store in memory has none.
 */
function listNotes(directory: string): string[] {
  const notes = join(directory, 'part')
  if (!existsSync(notes)) return []
  return readdirSync(notes, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => entry.name)
}

/**
 * Checks that a store of blobs keeps what `BlobStore` promises, and that each test leaves no note in
 * its directory, if it has one.
 */
export function testBlobStore(name: string, open: (directory: string) => BlobStore): void {
  describe(name, () => {
    const root = mkdtempSync(join(tmpdir(), 'gateway-blob-suite-'))
    afterAll(() => rmSync(root, { recursive: true, force: true }))
    let store: BlobStore
    let directory: string
    beforeEach(() => {
      directory = join(mkdtempSync(join(root, 'data-')), 'files')
      store = open(directory)
    })
    afterEach(async () => {
      expect([listNotes(directory), store.countDrafts(WORKSPACE)]).toEqual([[], 0])
      await store.close()
    })

    /** What is noted of a blob, in a store that keeps notes. */
    const note = (end: string) => (existsSync(directory) ? [`${WORKSPACE}.${place(end).name}`] : [])

    test('keeps what was written, in pieces, and reads it again', async () => {
      const draft = await store.create(place('1'))
      for (const text of ['Hello', '', ', ', 'world']) await draft.write(Buffer.from(text))
      expect(draft.size).toBe(12)
      expect(Buffer.from(await draft.readAt(7, 100)).toString()).toBe('world')
      expect(await draft.readAt(12, 5)).toHaveLength(0)
      await draft.keep(kept)
      expect(await readText(store, place('1'))).toBe('Hello, world')
      expect(await store.size(place('1'))).toBe(12)
    })

    test('does not keep a piece whose memory is used again', async () => {
      const draft = await store.create(place('1'))
      const bytes = Buffer.from('first')
      await draft.write(bytes)
      bytes.fill(0)
      await draft.keep(kept)
      expect(await readText(store, place('1'))).toBe('first')
    })

    test('shows nothing before it is kept, and all of it to its record', async () => {
      const draft = await store.create(place('1'))
      await draft.write(Buffer.from('half'))
      expect(await store.size(place('1'))).toBeUndefined()
      expect(await listNames(store)).toEqual([])
      await draft.keep(async () => {
        expect(await store.size(place('1'))).toBe(4)
        expect(listNotes(directory)).toEqual(expect.arrayContaining(note('1')))
      })
    })

    test('deletes what is discarded, and what gets no record', async () => {
      const dropped = await store.create(place('1'))
      await dropped.write(Buffer.from('dropped'))
      await dropped.discard()
      await dropped.discard()
      const refused = await store.create(place('2'))
      await refused.write(Buffer.from('refused'))
      await expect(
        refused.keep(async () => {
          throw new Error('no room')
        }),
      ).rejects.toThrow('no room')
      await refused.discard()
      expect(await listNames(store)).toEqual([])
    })

    test('keeps a kept blob when it is discarded afterwards', async () => {
      const draft = await store.create(place('1'))
      await draft.write(Buffer.from('kept'))
      await draft.keep(kept)
      await draft.discard()
      expect(await readText(store, place('1'))).toBe('kept')
    })

    test('deletes a blob after its record, and not if that stays', async () => {
      await write(store, place('1'), 'one')
      await store.remove(place('1'), async () => {
        expect(await store.size(place('1'))).toBe(3)
        expect(listNotes(directory)).toEqual(note('1'))
      })
      expect(await store.size(place('1'))).toBeUndefined()
      await write(store, place('2'), 'two')
      const refusal = store.remove(place('2'), async () => {
        throw new Error('locked')
      })
      await expect(refusal).rejects.toThrow('locked')
      expect(await readText(store, place('2'))).toBe('two')
    })

    test('throws for a blob that is not there', async () => {
      await expect(store.read(place('9'))).rejects.toThrow()
      expect(await store.size(place('9'))).toBeUndefined()
      await store.remove(place('9'), kept)
    })

    test('lists blobs, and deletes those of one workspace', async () => {
      await write(store, place('1'), 'a')
      await write(store, place('2'), 'b')
      await write(store, place('1', OTHER), 'c')
      expect(await listNames(store)).toEqual(
        [place('1'), place('2'), place('1', OTHER)]
          .map(at => `${at.workspace_id}/${at.name}`)
          .sort(),
      )
      await store.removeWorkspace(WORKSPACE)
      await store.removeWorkspace(WORKSPACE)
      expect(await listNames(store)).toEqual([`${OTHER}/${place('1').name}`])
      expect(await readText(store, place('1', OTHER))).toBe('c')
    })

    test.each([
      '../../etc/passwd',
      '..',
      '.',
      '',
      'a/b',
      'a\\b',
      '/abs',
      'ab\0',
      '%2e%2e',
      'AB',
      'part',
      `${'a'.repeat(65)}`,
      'a.b',
      '-a',
    ])('refuses a place that is no id: %p', async name => {
      await expect(store.create({ workspace_id: WORKSPACE, name })).rejects.toThrow('no id')
      await expect(store.create({ workspace_id: name, name: 'ab' })).rejects.toThrow('no id')
      await expect(store.read({ workspace_id: WORKSPACE, name })).rejects.toThrow()
      expect(await listNames(store)).toEqual([])
    })

    test('sweeps nothing that runs or has a record', async () => {
      await write(store, place('1'), 'one')
      expect(await store.sweep(async () => true)).toBe(0)
      expect(await readText(store, place('1'))).toBe('one')
    })

    test.each([
      [{ start: 0, length: 5 }, 'Hello'],
      [{ start: 7, length: 5 }, 'world'],
      [{ start: 4, length: 1 }, 'o'],
      [{ start: 0, length: 12 }, 'Hello, world'],
      [{ start: 3, length: 0 }, ''],
    ])('reads %j of a blob', async (range, text) => {
      await write(store, place('1'), 'Hello, world')
      expect(await new Response(await store.read(place('1'), range)).text()).toBe(text)
    })

    test('keeps an empty blob', async () => {
      await write(store, place('1'), '')
      expect([await store.size(place('1')), await readText(store, place('1'))]).toEqual([0, ''])
    })

    test('hands a large blob on in pieces, and stops where its reader does', async () => {
      const draft = await store.create(place('1'))
      for (let i = 0; i < 40; i++) await draft.write(Buffer.alloc(50_000, i))
      await draft.keep(kept)
      const whole = new Uint8Array(await new Response(await store.read(place('1'))).arrayBuffer())
      expect(whole.length).toBe(2_000_000)
      expect(whole.every((byte, i) => byte === Math.floor(i / 50_000))).toBe(true)
      const reader = (await store.read(place('1'))).getReader()
      await reader.read()
      await reader.cancel()
    })
  })
}
