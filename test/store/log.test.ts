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
import { LOG, LOG_BEFORE, Log, listSegments } from '../../src/store/log.ts'
import { listLogFiles, TEST_MACS } from '../support/log.ts'

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
    log.append('"c"\n')
    await written
    await log.add('"d"\n')
    expect(read().map(({ lines }) => lines)).toEqual([['"a"', '"b"', '"c"'], ['"d"']])
  })

  test('goes on in a segment of its own in each process, under a number that none had', () => {
    open().append('"a"\n')
    open().append('"b"\n')
    const third = open()
    third.take()
    expect(listSegments(data)).toEqual([3])
    third.moveTo(LOG_BEFORE)
    open().append('"c"\n')
    expect([listSegments(data, LOG_BEFORE), listSegments(data)]).toEqual([[3], [4]])
    expect(isWhole()).toBe(true)
  })

  test('keeps what a process before has left until that is dealt with', () => {
    open().append('"left"\n')
    const log = open({ largest: 100 })
    for (const line of ['1', '2', '3']) log.append(`${line}\n`)
    expect(listSegments(data)).toEqual([1, 3])
    expect(listLines()).toContain('"left"')
    log.take()
    expect(listSegments(data)).toEqual([4])
  })

  test('keeps full segments while they are needed', () => {
    const log = open({ largest: 100 })
    log.append('1\n')
    log.retain()
    for (const line of ['2', '3', '4']) log.append(`${line}\n`)
    expect(listLines()).toEqual(['1', '2', '3', '4'])
    log.release()
    expect(listSegments(data)).toHaveLength(1)
    expect(isWhole()).toBe(true)
  })

  test('begins each segment with what still counts', () => {
    const log = open({ largest: 100 })
    log.renderOpening = () => '"open"\n'
    for (const line of ['1', '2', '3']) log.append(`${line}\n`)
    expect(listLines()).toEqual(['"open"', '3'])
  })

  test('goes on where its last whole block ended, also where that cannot be cut at once', () => {
    let room = 1_000
    const log = open({
      write: (file: number, text: string) => writeSync(file, text.slice(0, room)),
    })
    log.append('"a"\n')
    for (room of [0, 1, 60, 86]) expect(() => log.append('"lost"\n')).toThrow('a part')
    room = 1_000
    log.append('"b"\n')
    expect([listLines(), isWhole()]).toEqual([['"a"', '"b"'], true])
  })
})

describe('what is not as it was written', () => {
  const write = (...lines: string[]) => {
    const log = open()
    for (const line of lines) log.append(`${line}\n`)
    return listLogFiles(data).at(-1) ?? ''
  }
  /** Where each block begins, and where the last ends. */
  const findPlaces = () => {
    let end = 0
    return [0, ...read().map(({ bytes }) => (end += bytes.length))]
  }

  test('is found at every byte, and what is behind it is believed', () => {
    const path = write('"first"', '"second"', '"third"')
    const bytes = readFileSync(path)
    const [, from = 0, to = 0] = findPlaces()
    for (let at = from; at < to; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      writeFileSync(path, changed)
      expect(read().map(block => block.isWhole)).toEqual([true, false, true])
    }
  })

  test('is a block that was taken out, and one that stands elsewhere', () => {
    const path = write('"first"', '"second"', '"third"')
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

  test('are segments that were exchanged, and one that is missing between two', () => {
    const [one, two, three] = ['"1"', '"2"', '"3"'].map(line => write(line)) as [
      string,
      string,
      string,
    ]
    expect([basename(one), isWhole()]).toEqual(['log.1', true])
    const aside = join(data, 'aside')
    renameSync(two, aside)
    expect(isWhole()).toBe(false)
    renameSync(three, two)
    renameSync(aside, three)
    expect(isWhole()).toBe(false)
  })

  test('is no tail that was cut at any byte: the lines before it are there', () => {
    const path = write('"first"', '"second"')
    const bytes = readFileSync(path)
    const [, from = 0, to = 0] = findPlaces()
    for (let at = from; at < to; at++) {
      writeFileSync(path, bytes.subarray(0, at))
      expect([listLines(), isWhole()]).toEqual([['"first"'], true])
    }
    // The next process goes on behind the last whole block.
    open().append('"third"\n')
    expect([listLines(), isWhole()]).toEqual([['"first"', '"third"'], true])
  })

  test.each([
    ['of the last block', '"third"', '"thi"'],
    ['of another', '"second"', '"sec"'],
    ['that were added', '"second"', '"seconds"'],
  ])('are bytes %s that are missing, or more than there were', (_, from, to) => {
    const path = write('"first"', '"second"', '"third"')
    writeFileSync(path, readFileSync(path, 'utf8').replace(from, to))
    const damaged = read().filter(block => !block.isWhole)
    expect(damaged.map(({ lines }) => lines)).toEqual([[to]])
    expect(read()).toHaveLength(3)
  })

  test('is kept as evidence', () => {
    const path = write('"first"', '"second"')
    writeFileSync(path, readFileSync(path, 'utf8').replace('second', 'Second'))
    open().keepDamage(() => false)
    expect(existsSync(join(data, 'log.garbled'))).toBe(false)
    open().keepDamage(() => true)
    expect(readFileSync(join(data, 'log.garbled'), 'utf8')).toMatch(/^#.*\n"Second"\n$/)
  })
})
