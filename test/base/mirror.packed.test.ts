import { beforeEach, describe, expect, test } from 'bun:test'
import { Mirror, PackedMirror } from '../../src/base/mirror.ts'
import {
  NO_MARK,
  type PackedQuery,
  PackedRows,
  type Packing,
  type PageOfRows,
} from '../../src/base/packed-rows.ts'

interface Note {
  name: string
  created_at: string
  mark: number
  group: string
  id: string
  text: string | null
}

const PACKING: Packing<Note> = {
  parse(fields) {
    const [name, created_at, mark, group, id, text] = fields as [
      ...[string, string, number, string, string, string | null],
    ]
    return { name, created_at, mark: mark - NO_MARK, group, id, text }
  },
  getName: ({ name }) => name,
  getGroup: ({ group }) => group,
  getMark: ({ mark }) => mark,
  tie: 'field',
  getTie: ({ id }) => id,
}

const hash = (n: number) => new Bun.CryptoHasher('sha256').update(String(n)).digest('hex')
const uuid = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`
const TEXTS = ['plain', 'with "quotes" and \\', 'line\nbreak', 'ümläut 日本 🙂', null]

const buildNote = (n: number): Note => ({
  name: hash(n),
  // Few times, so that ids have to decide; not in the order of the rows.
  created_at: new Date(Date.UTC(2026, (n * 5) % 12, 1 + (n % 28), n % 24, n % 60)).toISOString(),
  mark: (n % 3 === 0 ? 1 : n % 5 === 0 ? 2 : 0) + (n % 7 === 0 ? 32 : 0),
  group: uuid(n % 4),
  id: uuid(7919 * (n % 1009)),
  text: TEXTS[n % TEXTS.length] ?? null,
})

const ODD: Note[] = [
  { ...buildNote(1), name: 'short', id: 'odd' },
  { ...buildNote(2), name: `${hash(2).slice(0, 62)}\\"`, group: 'no uuid' },
  { ...buildNote(3), name: hash(-3), group: 'x"y' },
  ...[4, 844, 1684].map(n => ({ ...buildNote(n), name: hash(-n), id: `no-uuid-${n}` })),
]

const renderRow = ({ name, created_at, mark, group, id, text }: Note) =>
  JSON.stringify([name, created_at, mark + NO_MARK, group, id, text])

const PAGE = 700

function buildPages(notes: Note[]): PageOfRows[] {
  const pages: PageOfRows[] = []
  // As of a table that has lost some rows.
  for (let from = 0, count = PAGE; from < notes.length; from += count--) {
    const page = notes.slice(from, from + count)
    pages.push({ rows: Buffer.from(page.map(renderRow).join('\n')), count: page.length })
  }
  return pages
}

const pack = (notes: Note[], others: Note[] = []) =>
  PackedRows.pack(PACKING, buildPages(notes), others)

let notes: Note[]
let packed: PackedMirror<Note>
/** The same values, none of them packed. */
let plain: PackedMirror<Note>

beforeEach(async () => {
  notes = Array.from({ length: 2_345 }, (_, n) => buildNote(n))
  notes.splice(1_200, 0, ...ODD)
  const others = [{ ...buildNote(9), name: 'member x', id: 'other' }]
  packed = await PackedMirror.openPacked(PACKING, { read: () => pack(notes, others) })
  plain = await PackedMirror.openPacked(PACKING, { read: async () => [...notes, ...others] })
})

const listAll = (mirror: PackedMirror<Note>) =>
  mirror
    .values()
    .toArray()
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))

/** Changes both mirrors in every way: rows, values that were no rows, and new ones. */
function change(mirror: PackedMirror<Note>): void {
  for (const note of [...notes.slice(0, 40), ...ODD.slice(0, 1)])
    mirror.set({ ...note, mark: 0, text: 'changed' })
  for (const { name } of [...notes.slice(30, 70), ...ODD.slice(1, 2)]) mirror.delete(name)
  mirror.set({ ...buildNote(33), text: 'back again' })
  mirror.set({ ...buildNote(-1), group: uuid(1) })
  mirror.delete('unknown')
}

describe('packed values', () => {
  test('are what unpacked ones are', () => {
    expect(listAll(packed)).toEqual(listAll(plain))
    expect([packed.size, packed.keys().toArray().toSorted()]).toEqual([
      plain.size,
      plain.keys().toArray().toSorted(),
    ])
    for (const { name } of notes) expect(packed.get(name)).toEqual(plain.get(name))
    expect([hash(-7), 'short', 'shorter'].map(name => packed.has(name))).toEqual([
      false,
      true,
      false,
    ])
  })

  test('are the same object when they are asked for again', () => {
    expect(packed.get(hash(5))).toBe(packed.get(hash(5)) as Note)
  })

  test('change as unpacked ones do', () => {
    for (const mirror of [packed, plain]) change(mirror)
    expect(listAll(packed)).toEqual(listAll(plain))
    expect(packed.size).toBe(plain.size)
    expect(packed.get(hash(0))?.text).toBe('changed')
    expect([packed.get(hash(50)), packed.get(hash(33))?.text]).toEqual([undefined, 'back again'])
  })

  test('may all be replaced', () => {
    packed.replaceAll([buildNote(1)])
    expect(listAll(packed)).toEqual([buildNote(1)])
    expect(packed.size).toBe(1)
  })

  test('that this process changes during a reload stay changed', async () => {
    const read = Promise.withResolvers<PackedRows<Note>>()
    const mirror = new PackedMirror(PACKING, { read: () => read.promise })
    const reloading = mirror.reload()
    mirror.set({ ...buildNote(1), text: 'newer' })
    mirror.delete(hash(2))
    read.resolve(await pack(notes))
    await reloading
    expect([mirror.get(hash(1))?.text, mirror.has(hash(2)), mirror.has(hash(3))]).toEqual([
      'newer',
      false,
      true,
    ])
  })

  test('are packed again once most have changed, and until then read by their names', async () => {
    const asked: (number | undefined)[] = []
    const mirror = await PackedMirror.openPacked(PACKING, {
      read: (names?: string[]) => {
        asked.push(names?.length)
        return pack(notes)
      },
    })
    const again = () => Mirror.readAgain([[mirror, new Set([hash(1), hash(2)])]])
    await again()
    for (let n = 0; n < 9_000; n++) mirror.set({ ...buildNote(n), text: 'changed' })
    await again()
    expect(mirror.get(hash(3))?.text).toBe(buildNote(3).text)
    await again()
    expect(asked).toEqual([undefined, 2, undefined, 2])
  })

  test('of no rows at all are none', async () => {
    const mirror = await PackedMirror.openPacked(PACKING, { read: () => pack([]) })
    expect([mirror.size, mirror.get(hash(1)), listAll(mirror)]).toEqual([0, undefined, []])
  })
})

describe('a list of packed values', () => {
  const QUERIES: Omit<PackedQuery, 'isInGroup'>[] = [
    { without: 0, order: 'newest', count: 10 },
    { without: 0, order: 'oldest', count: 10 },
    { without: 1, order: 'newest', count: 150 },
    { without: 3, order: 'oldest', count: 5_000 },
  ]
  const GROUPS = [[uuid(1)], [uuid(0), uuid(3), 'x"y'], ['no uuid'], [], 'all']

  test.each(QUERIES)('is that of unpacked ones: %j', query => {
    const pickAll = () =>
      GROUPS.map(groups => {
        const isInGroup = (group: string) => groups === 'all' || groups.includes(group)
        const [one, other] = [packed, plain].map(mirror => mirror.pick({ ...query, isInGroup }))
        expect(one).toEqual(other as NonNullable<typeof other>)
        return one?.total
      })
    expect(pickAll()).toContain(0)
    for (const mirror of [packed, plain]) change(mirror)
    pickAll()
  })

  test('has those whose mark has a bit', () => {
    const list = (mirror: PackedMirror<Note>) =>
      [...mirror.listMarked(2 + 32)].map(({ name }) => name)
    expect(list(packed).toSorted()).toEqual(list(plain).toSorted())
    for (const mirror of [packed, plain]) change(mirror)
    expect(list(packed).toSorted()).toEqual(list(plain).toSorted())
    expect(list(packed).length).toBeGreaterThan(PAGE / 5)
  })

  test.each([uuid(2), 'changed', 'x"y', 'nowhere', 'ümläut'])(
    'has those that mention a text: %s',
    text => {
      for (const mirror of [packed, plain]) change(mirror)
      const isMeant = (note: Note) => note.group === text || note.text?.includes(text) === true
      const list = (mirror: PackedMirror<Note>) =>
        mirror
          .filterMentioning(text, isMeant)
          .map(({ name }) => name)
          .toSorted()
      expect(list(packed)).toEqual(list(plain))
      packed.deleteMentioning(text, isMeant)
      expect(list(packed)).toEqual([])
    },
  )
})
