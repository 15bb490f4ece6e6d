import { describe, expect, test } from 'bun:test'
import { type DocumentText, ReadDocuments } from '../../../src/engine/traffic/read-documents.ts'

describe('the memory of documents', () => {
  const build = (text: string): DocumentText => ({ type: 'pdf', text, isCut: false })
  const at = (now: number, most = 10_000) => ({ now, most })
  const HOUR = 3_600_000

  test('forgets an hour after the last use', () => {
    const memory = new ReadDocuments()
    memory.keep('a', build('A'), at(0))
    memory.keep('b', build('B'), at(1))
    expect(memory.find('a', HOUR - 1)?.text).toBe('A')
    expect(memory.find('b', HOUR + 1)).toBeNull()
    expect(memory.find('a', 2 * HOUR - 2)?.text).toBe('A')
    expect(memory.find('a', 4 * HOUR)).toBeNull()
    expect(memory.size).toBe(0)
  })

  test('forgets what was used longest ago when it is full, and keeps nothing too large', () => {
    const memory = new ReadDocuments()
    for (const name of ['a', 'b', 'c']) memory.keep(name, build('x'.repeat(1_000)), at(0))
    expect(memory.find('a', 0)).not.toBeNull()
    memory.keep('d', build('x'.repeat(1_000)), at(0))
    expect(['a', 'b', 'c', 'd'].filter(name => memory.find(name, 0))).toEqual(['a', 'c', 'd'])
    memory.keep('e', build('x'.repeat(5_000)), at(0))
    expect(['a', 'c', 'd', 'e'].filter(name => memory.find(name, 0))).toEqual(['a', 'c', 'd'])
    expect(memory.size).toBeLessThanOrEqual(10_000)
    memory.keep('a', build('y'), at(0))
    expect(memory.find('a', 0)?.text).toBe('y')
    memory.keep('f', build('x'), at(0, 0))
    expect(memory.size).toBe(0)
  })
})
