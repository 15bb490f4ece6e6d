import { beforeEach, describe, expect, test } from 'bun:test'
import { Mirror, overlay } from '../../src/base/mirror.ts'

interface Note {
  name: string
  text: string
}

let stored: Note[]
let changes: number
let mirror: Mirror<Note>

beforeEach(async () => {
  stored = [
    { name: 'a', text: 'one' },
    { name: 'b', text: 'two' },
  ]
  const read = async () => stored.map(note => ({ ...note }))
  mirror = await Mirror.open({ read, getName: ({ name }) => name, onChange: () => changes++ })
  changes = 0
})

const shown = () => Object.fromEntries([...mirror.values()].map(({ name, text }) => [name, text]))

describe('a mirror', () => {
  test('returns what the store has, by name', () => {
    expect(shown()).toEqual({ a: 'one', b: 'two' })
    expect([mirror.size, mirror.has('a'), mirror.get('b')?.text, mirror.get('c')]).toEqual([
      2,
      true,
      'two',
      undefined,
    ])
    expect(mirror.filter(({ text }) => text === 'two').map(({ name }) => name)).toEqual(['b'])
  })

  test.each<[string, () => unknown, Record<string, string>]>([
    ['set', () => mirror.set({ name: 'c', text: 'three' }), { a: 'one', b: 'two', c: 'three' }],
    ['delete', () => mirror.delete('a'), { b: 'two' }],
    ['deleteWhere', () => mirror.deleteWhere(({ text }) => text === 'two'), { a: 'one' }],
    ['replaceAll', () => mirror.replaceAll([{ name: 'z', text: 'last' }]), { z: 'last' }],
  ])('reports a change by %s', (_, change, expected) => {
    change()
    expect([shown(), changes]).toEqual([expected, 1])
  })

  test('reports nothing when no value matches a deletion', () => {
    expect(mirror.deleteWhere(() => false)).toEqual([])
    expect(changes).toBe(0)
  })
})

describe('a change that is written first', () => {
  const shout = (note: Note): Note => ({ ...note, text: note.text.toUpperCase() })

  test('is applied to the value as it is after the write', async () => {
    const changed = await mirror.change('a', shout, async () =>
      mirror.set({ name: 'a', text: 'newer' }),
    )
    expect([changed?.text, mirror.get('a')?.text]).toEqual(['NEWER', 'NEWER'])
  })

  test('may overwrite fields and keeps the others', async () => {
    const changed = await mirror.change('a', overlay({ text: 'over' }), async () => undefined)
    expect(changed).toEqual({ name: 'a', text: 'over' })
  })

  test('returns nothing and restores nothing when the value was deleted meanwhile', async () => {
    expect(await mirror.change('a', shout, async () => mirror.delete('a'))).toBeUndefined()
    expect(shown()).toEqual({ b: 'two' })
  })

  test('is not visible when the store fails', async () => {
    const failing = mirror.change('a', shout, () => Promise.reject(new Error('The disk is gone')))
    expect(failing).rejects.toThrow('The disk is gone')
    await failing.catch(() => undefined)
    expect([shown(), changes]).toEqual([{ a: 'one', b: 'two' }, 0])
  })
})

describe('reading some again', () => {
  const readAgain = (...names: string[]) => Mirror.readAgain([[mirror, new Set(names)]])

  test('picks up what was added, changed and deleted of these names, and nothing else', async () => {
    stored = [
      { name: 'b', text: 'other' },
      { name: 'c', text: 'three' },
    ]
    await readAgain('b', 'c')
    expect([shown(), changes]).toEqual([{ a: 'one', b: 'other', c: 'three' }, 1])
    await readAgain('a', 'never')
    expect([shown(), changes]).toEqual([{ b: 'other', c: 'three' }, 2])
  })

  test('keeps changes that this process makes during the read', async () => {
    stored = []
    const reading = readAgain('a', 'b', 'c')
    mirror.set({ name: 'a', text: 'mine' })
    mirror.delete('b')
    await reading
    expect(shown()).toEqual({ a: 'mine' })
  })

  test('changes several mirrors in one step, or none', async () => {
    const { promise, resolve } = Promise.withResolvers<Note[]>()
    const late = new Mirror<Note>({ read: () => promise, getName: ({ name }) => name })
    stored = []
    const reading = Mirror.readAgain([
      [mirror, new Set(['a'])],
      [late, null],
    ])
    await Bun.sleep(0)
    expect(shown()).toEqual({ a: 'one', b: 'two' })
    resolve([{ name: 'x', text: 'late' }])
    await reading
    expect([shown(), late.get('x')?.text]).toEqual([{ b: 'two' }, 'late'])
    const failing = Promise.withResolvers<Note[]>()
    const broken = new Mirror<Note>({ read: () => failing.promise, getName: ({ name }) => name })
    const refused = Mirror.readAgain([
      [mirror, new Set(['b'])],
      [broken, null],
    ])
    failing.reject(new Error('The disk is gone'))
    expect(await refused.catch(({ message }) => message)).toBe('The disk is gone')
    expect(shown()).toEqual({ b: 'two' })
  })
})

describe('reloading', () => {
  test('picks up what another process has added, changed and deleted', async () => {
    stored = [
      { name: 'b', text: 'other' },
      { name: 'c', text: 'three' },
    ]
    await mirror.reload()
    expect([shown(), changes]).toEqual([{ b: 'other', c: 'three' }, 1])
  })

  test('keeps changes that this process makes during the read', async () => {
    const reading = mirror.reload()
    mirror.set({ name: 'a', text: 'mine' })
    mirror.set({ name: 'c', text: 'new' })
    mirror.delete('b')
    await reading
    expect(shown()).toEqual({ a: 'mine', c: 'new' })
  })

  test('replaces all values in one step', async () => {
    let prefix = 'old'
    const made = stored.values().map(({ name, text }) => ({ name, text: `${prefix} ${text}` }))
    const { promise, resolve } = Promise.withResolvers<Iterable<Note>>()
    const lazy = new Mirror<Note>({ read: () => promise, getName: ({ name }) => name })
    const reading = lazy.reload()
    resolve(made)
    prefix = 'new'
    await reading
    expect(lazy.get('a')?.text).toBe('new one')
  })

  test('keeps what replaced everything during the read', async () => {
    const reading = mirror.reload()
    mirror.replaceAll([{ name: 'z', text: 'mine' }])
    await reading
    expect(shown()).toEqual({ z: 'mine' })
  })

  test('keeps what a deletion of several left during the read', async () => {
    const reading = mirror.reload()
    mirror.deleteWhere(({ text }) => text === 'one')
    await reading
    expect(shown()).toEqual({ b: 'two' })
  })

  test('forgets what changed during a read that failed', async () => {
    let isBroken = true
    const read = async () => {
      if (isBroken) throw new Error('The disk is gone')
      return stored
    }
    const failing = new Mirror<Note>({ read, getName: ({ name }) => name })
    const reading = failing.reload()
    failing.set({ name: 'a', text: 'mine' })
    expect(reading).rejects.toThrow('The disk is gone')
    await reading.catch(() => undefined)
    isBroken = false
    await failing.reload()
    expect(failing.get('a')?.text).toBe('one')
  })

  test('of many values gives others their turn, and shows all of them at once', async () => {
    const many = Array.from({ length: 10_000 }, (_, n) => ({ name: `n${n}`, text: '' }))
    const large = new Mirror<Note>({ read: async () => many, getName: ({ name }) => name })
    const seen: number[] = []
    const look = () => {
      seen.push(large.size)
      if (large.size === 0) setImmediate(look)
    }
    setImmediate(look)
    await large.reload()
    expect([seen.length > 1, new Set(seen)]).toEqual([true, new Set([0])])
    expect(large.size).toBe(many.length)
  })
})
