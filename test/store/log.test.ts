import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { LOG, LOG_BEFORE, Log, type LogOptions, listSegments } from '../../src/store/log.ts'
import { TestClock } from '../support/gateway.ts'
import { limitRoom, listLogFiles, TEST_MACS } from '../support/log.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-log-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let data: string
beforeEach(() => {
  data = mkdtempSync(join(root, 'data-'))
})

const open = (options = {}, name = LOG) => new Log(data, TEST_MACS, name, options)
const read = () => open().read()
const listLines = () => read().flatMap(({ lines, isWhole }) => (isWhole ? lines : []))
const isWhole = () => read().every(block => block.isWhole)

describe('the log', () => {
  test('has one block for the lines of a turn, whoever writes them', async () => {
    const log = open()
    const written = log.add('"a"\n')
    expect(log.add('"b"\n')).toBe(written)
    await written
    await log.add('"c"\n')
    expect(read().map(({ lines }) => lines)).toEqual([['"a"', '"b"'], ['"c"']])
  })

  test('goes on in a segment of its own in each process, under a number that none had', async () => {
    await open().add('"a"\n')
    await open().add('"b"\n')
    const third = open()
    await third.take()
    expect(listSegments(data)).toEqual([3])
    await third.moveTo(LOG_BEFORE)
    await open().add('"c"\n')
    expect([listSegments(data, LOG_BEFORE), listSegments(data)]).toEqual([[3], [4]])
    expect(isWhole()).toBe(true)
  })

  test('keeps what a process before has left until that is dealt with', async () => {
    await open().add('"left"\n')
    const log = open({ largest: 100 })
    for (const line of ['1', '2', '3']) await log.add(`${line}\n`)
    expect(listSegments(data)).toEqual([1, 3])
    expect(listLines()).toContain('"left"')
    await log.take()
    expect(listSegments(data)).toEqual([4])
  })

  test('keeps full segments while they are needed', async () => {
    const log = open({ largest: 100 })
    await log.add('1\n', true)
    for (const line of ['2', '3', '4']) await log.add(`${line}\n`)
    expect(listLines()).toEqual(['1', '2', '3', '4'])
    // What comes with the end of others is needed again.
    void log.add('5\n', false)
    await log.add('6\n', true)
    expect(listLines()).toEqual(['1', '2', '3', '4', '5', '6'])
    await log.add('7\n', false)
    expect(listSegments(data)).toHaveLength(1)
    expect(isWhole()).toBe(true)
  })

  test('begins each segment with what still counts', async () => {
    const log = open({ largest: 100 })
    log.renderOpening = () => '"open"\n'
    for (const line of ['1', '2', '3']) await log.add(`${line}\n`)
    expect(listLines()).toEqual(['"open"', '3'])
  })

  test('goes on where its last whole block ended, also where that cannot be cut at once', async () => {
    let room = 1_000
    const log = open({ write: limitRoom(() => room) })
    await log.add('"a"\n')
    for (room of [0, 1, 60, 86])
      expect((await log.add('"lost"\n').catch(thrown => thrown)).cause.message).toContain('a part')
    room = 1_000
    await log.add('"b"\n')
    expect([listLines(), isWhole()]).toEqual([['"a"', '"b"'], true])
  })
})

describe('a disk that stands still', () => {
  /** Opens a log whose disk takes a block when it is let, and the time of its clock. */
  function openHeld() {
    const held: (() => void)[] = []
    const clock = new TestClock()
    const write: LogOptions['write'] = (file, text, tell) =>
      held.push(() => tell(null, writeSync(file, text)))
    return { log: open({ write, ticks: clock.ticks }), held, clock }
  }
  const nextTurn = () => new Promise(resolve => setImmediate(resolve))

  test('holds up nothing but those who wait for it, and gets one block at a time, in their order', async () => {
    const { log, held } = openHeld()
    const order: string[] = []
    const add = (line: string) => log.add(`"${line}"\n`).then(() => order.push(line))
    void add('a')
    await nextTurn()
    for (const line of ['b', 'c']) {
      void add(line)
      await nextTurn()
    }
    order.push('others')
    expect([held.length, log.pending !== null]).toEqual([1, true])
    held[0]?.()
    while (held.length < 2) await nextTurn()
    held[1]?.()
    await log.settle()
    expect([order, read().map(({ lines }) => lines)]).toEqual([
      ['others', 'a', 'b', 'c'],
      [['"a"'], ['"b"', '"c"']],
    ])
    expect([isWhole(), log.pending, held.length]).toEqual([true, null, 2])
  })

  test('does not keep up after two seconds, nor where too much waits, until it has caught up', async () => {
    const { log, held, clock } = openHeld()
    const written = log.add('"a"\n')
    await nextTurn()
    clock.pass(1_999)
    expect([log.lag, log.keepsUp]).toEqual([1_999, true])
    clock.pass(1)
    // It may have been written while this process stood still: one more turn tells.
    expect(log.keepsUp).toBe(true)
    const keepsUp = () => log.keepsUp
    while (keepsUp()) await nextTurn()
    held[0]?.()
    await written
    expect([log.lag, keepsUp()]).toEqual([0, true])
    void log.add('"b"\n')
    await nextTurn()
    const large = log.add(`"${'c'.repeat(8 * 2 ** 20)}"\n`)
    expect(log.keepsUp).toBe(false)
    held[1]?.()
    while (held.length < 3) await nextTurn()
    expect(log.keepsUp).toBe(true)
    held[2]?.()
    await large
  })

  test('that has written while this process stood still keeps up', async () => {
    const { log, held, clock } = openHeld()
    const written = log.add('"a"\n')
    await nextTurn()
    clock.pass(60_000)
    const looks = [log.keepsUp]
    held[0]?.()
    await written
    for (let turn = 0; turn < 3; turn++) {
      looks.push(log.keepsUp)
      await nextTurn()
    }
    expect(looks).toEqual([true, true, true, true])
  })

  test('is waited for before the log gets another name', async () => {
    const { log, held } = openHeld()
    void log.add('"a"\n')
    const moved = log.moveTo(LOG_BEFORE)
    await nextTurn()
    expect([listSegments(data), held.length]).toEqual([[1], 1])
    held[0]?.()
    await moved
    expect([listSegments(data), listSegments(data, LOG_BEFORE)]).toEqual([[], [1]])
  })
})

describe('what is not as it was written', () => {
  const write = async (...lines: string[]) => {
    const log = open()
    for (const line of lines) await log.add(`${line}\n`)
    return listLogFiles(data).at(-1) ?? ''
  }
  /** Where each block begins, and where the last ends. */
  const findPlaces = () => {
    let end = 0
    return [0, ...read().map(({ bytes }) => (end += bytes.length))]
  }

  test('is found at every byte, and what is behind it is believed', async () => {
    const path = await write('"first"', '"second"', '"third"')
    const bytes = readFileSync(path)
    const [, from = 0, to = 0] = findPlaces()
    for (let at = from; at < to; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      writeFileSync(path, changed)
      expect(read().map(block => block.isWhole)).toEqual([true, false, true])
    }
  })

  test('is a block that was taken out, and one that stands elsewhere', async () => {
    const path = await write('"first"', '"second"', '"third"')
    const bytes = readFileSync(path)
    const [, from = 0, to = 0] = findPlaces()
    const [first, second, third] = [
      bytes.subarray(0, from),
      bytes.subarray(from, to),
      bytes.subarray(to),
    ]
    writeFileSync(path, Buffer.concat([first, third]))
    expect(read().map(block => block.isWhole)).toEqual([true, false])
    writeFileSync(path, Buffer.concat([first, third, second]))
    expect(isWhole()).toBe(false)
  })

  test('are segments that were exchanged, and one that is missing between two', async () => {
    const [one, two, three] = [await write('"1"'), await write('"2"'), await write('"3"')]
    expect([basename(one), isWhole()]).toEqual(['log.1', true])
    const aside = join(data, 'aside')
    renameSync(two, aside)
    expect(isWhole()).toBe(false)
    renameSync(three, two)
    renameSync(aside, three)
    expect(isWhole()).toBe(false)
  })

  test('is no tail that was cut at any byte: the lines before it are there', async () => {
    const path = await write('"first"', '"second"')
    const bytes = readFileSync(path)
    const [, from = 0, to = 0] = findPlaces()
    for (let at = from; at < to; at++) {
      writeFileSync(path, bytes.subarray(0, at))
      expect([listLines(), isWhole()]).toEqual([['"first"'], true])
    }
    // The next process goes on behind the last whole block.
    await open().add('"third"\n')
    expect([listLines(), isWhole()]).toEqual([['"first"', '"third"'], true])
  })

  test.each([
    ['of the last block', '"third"', '"thi"'],
    ['of another', '"second"', '"sec"'],
    ['that were added', '"second"', '"seconds"'],
  ])('are bytes %s that are missing, or more than there were', async (_, from, to) => {
    const path = await write('"first"', '"second"', '"third"')
    writeFileSync(path, readFileSync(path, 'utf8').replace(from, to))
    const damaged = read().filter(block => !block.isWhole)
    expect(damaged.map(({ lines }) => lines)).toEqual([[to]])
    expect(read()).toHaveLength(3)
  })

  test('is kept as evidence', async () => {
    const path = await write('"first"', '"second"')
    writeFileSync(path, readFileSync(path, 'utf8').replace('second', 'Second'))
    open().keepDamage(() => false)
    expect(existsSync(join(data, 'log.garbled'))).toBe(false)
    open().keepDamage(() => true)
    expect(readFileSync(join(data, 'log.garbled'), 'utf8')).toMatch(/^#.*\n"Second"\n$/)
  })
})
