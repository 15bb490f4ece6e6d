import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderShape, renderSome } from '../../src/cli/shapes.ts'
import { runCommand } from '../support/commands.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-shapes-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))
beforeAll(async () => void (await runCommand(['init', '--data', data])))

const run = (...args: string[]) => runCommand([...args, '--data', data])

describe('the fields of an answer', () => {
  test('are a line for each row, with tabs between; what is not there is empty', () => {
    const data = [
      { id: 'a', n: 1, deep: { list: [{ x: 'in' }] }, gone: null },
      { id: 'b\tc\u001b', n: 2, deep: {} },
    ]
    expect(renderShape({ data, total_count: 2 }, 'id,n')).toEqual(['a\t1', 'b\uFFFDc\uFFFD\t2'])
    expect(renderShape({ data }, 'deep.list.0.x, gone')).toEqual(['in\t', '\t'])
    expect(renderShape({ data }, 'deep')).toEqual(['{"list":[{"x":"in"}]}', '{}'])
    expect(renderShape({ data, total_count: 2 }, 'total_count,id')).toEqual([
      ...['2\ta', '2\tb\uFFFDc\uFFFD'],
    ])
    expect(renderShape({ data: [] }, 'whatever')).toEqual([])
    expect(renderShape({ key: 'k', data: { name: 'n' } }, 'key,name')).toEqual(['k\tn'])
    expect(renderShape({ version: '1' }, 'version')).toEqual(['1'])
  })

  test.each(['nothing', 'id,nothing', 'id.x', '', 'constructor', '__proto__'])(
    'refuse %p, and name those that there are',
    fields => {
      expect(() => renderShape({ data: [{ id: 'a', n: 1 }], more: true }, fields)).toThrow(
        /^--field: expected id, n, more, found /,
      )
    },
  )

  test('of one thing among others are null where it has none of them', () => {
    expect(renderSome({ type: 'alarm', at: 'now' }, 'id,status')).toBeNull()
    expect(renderSome({ type: 'call', id: 'x' }, 'id,status')).toBe('x\t')
  })
})

describe('--field', () => {
  test('shapes lists, single answers, and what is shown once', async () => {
    expect((await run('keys', 'list', '--field', 'name')).stdout).toBe('inference\nmanagement\n')
    expect((await run('keys', 'get', 'inference', '--field', 'name,disabled')).stdout).toBe(
      'inference\tfalse\n',
    )
    const created = await run('keys', 'create', '--name', 'new', '--field', 'key')
    expect(created.stdout).toMatch(/^gw-v1-\w+\n$/)
    expect((await runCommand(['version', '--field', 'version'])).code).toBe(0)
    expect((await run('config', 'check', '--field', 'models')).stdout).toMatch(/^\d+\n$/)
    expect((await run('config', 'schema', '--field', 'title')).stdout).toBe('gateway.yaml\n')
    expect((await run('usage', '--field', 'cost')).stdout).toBe('')
  })

  test('that names nothing of one thing prints all of it, so that a new key is not lost', async () => {
    const { code, stdout, stderr } = await run('keys', 'create', '--name', 'b', '--field', 'kye')
    expect([code, stderr]).toEqual([2, expect.stringContaining('--field: expected ')])
    expect(JSON.parse(stdout).key).toMatch(/^gw-v1-/)
  })

  test('is refused beside --json and --csv, and where it names nothing', async () => {
    for (const args of [
      ['keys', 'list', '--json', '--field', 'name'],
      ['usage', '--csv', '--field', 'cost'],
      ['keys', 'list', '--field', 'nmae'],
      ['status', '--json', '--field', 'url'],
    ]) {
      const { code, stdout, stderr } = await run(...args)
      expect([code, stdout, stderr.trim().split('\n')]).toEqual([2, '', [expect.any(String)]])
    }
  })
})
