import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  conflict,
  denied,
  GatewayError,
  invalid,
  notFound,
  unauthenticated,
  unavailable,
} from '../../src/base/errors.ts'
import { toPrintable } from '../../src/base/printable.ts'
import {
  formatDollars,
  printFailure,
  printFields,
  printJson,
  printTable,
  renderRelative,
} from '../../src/cli/output.ts'
import { openRowProgress } from '../../src/cli/progress.ts'

let out: string
let err: string
let spies: { mockRestore(): void }[]

beforeEach(() => {
  out = ''
  err = ''
  spies = [
    spyOn(process.stdout, 'write').mockImplementation(text => {
      out += text
      return true
    }),
    spyOn(process.stderr, 'write').mockImplementation(text => {
      err += text
      return true
    }),
  ]
})

afterEach(() => {
  for (const spy of spies) spy.mockRestore()
})

describe('a failure', () => {
  test.each([
    [1, new Error('x')],
    [1, 'x'],
    [1, unavailable('x')],
    [1, new GatewayError('server', 'x')],
    [2, invalid('x')],
    [3, notFound('x')],
    [4, conflict('x')],
    [5, denied('x')],
    [5, unauthenticated('x')],
    [5, new GatewayError('payment_required', 'x')],
  ])('gives exit code %d and one line on stderr', (code, thrown) => {
    expect(printFailure(thrown)).toBe(code)
    expect([out, err]).toEqual(['', 'gateway: x\n'])
  })

  test('with several lines or escapes stays on one harmless line', () => {
    printFailure(new Error('a\nb\u001b[31mc\r'))
    expect(err).toBe('gateway: a\uFFFDb\uFFFD[31mc\uFFFD\n')
  })
})

describe('tables', () => {
  test('have columns as wide as their widest cell, as a terminal counts', () => {
    printTable(
      ['NAME', 'N'],
      [
        ['日本', 1],
        ['é', null],
        ['plain', 300],
      ],
    )
    expect(out).toBe('NAME   N\n日本   1\né      -\nplain  300\n')
  })

  test('print no character that moves the cursor', () => {
    printTable(['NAME'], [['\u001b[2Ja\u0007\u202Eb\u009b1m']])
    printFields({ name: '\u001b[2J', nested: { name: '\u202E' }, nothing: null })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    expect(out).toContain('nothing  -')
  })
})

describe('a table on a terminal', () => {
  const AT = '2026-03-04T05:06:07.000Z'
  const rows = [['laptop', 'active', AT]]
  const { isTTY, columns } = process.stdout
  const { NO_COLOR, TERM } = process.env
  beforeEach(() => {
    Object.assign(process.stdout, { isTTY: true, columns: 80 })
    process.env.TERM = 'xterm'
    delete process.env.NO_COLOR
    spies.push(spyOn(Date, 'now').mockReturnValue(Date.parse(AT) + 200_000))
  })
  afterEach(() => {
    Object.assign(process.stdout, { isTTY, columns })
    Object.assign(process.env, { TERM, ...(NO_COLOR === undefined ? {} : { NO_COLOR }) })
  })

  test('says times from now, and how something is doing in colours', () => {
    printTable(['NAME', 'STATE', 'SEEN'], rows)
    expect(out).toBe(
      '\u001b[2mNAME  \u001b[22m  \u001b[2mSTATE \u001b[22m  \u001b[2mSEEN\u001b[22m\n' +
        'laptop  \u001b[32mactive\u001b[39m  3 min ago\n',
    )
  })

  test('has no colours with NO_COLOR, and on a terminal that knows none', () => {
    process.env.NO_COLOR = '1'
    printTable(['NAME', 'STATE', 'SEEN'], rows)
    expect(out).toBe('NAME    STATE   SEEN\nlaptop  active  3 min ago\n')
    out = ''
    delete process.env.NO_COLOR
    process.env.TERM = 'dumb'
    printTable(['NAME', 'STATE', 'SEEN'], rows)
    expect(out).not.toContain('\u001b')
  })

  test('and elsewhere it has whole times and no colours', () => {
    Object.assign(process.stdout, { isTTY: false })
    printTable(['NAME', 'STATE', 'SEEN'], rows)
    expect(out).toBe(`NAME    STATE   SEEN\nlaptop  active  ${AT}\n`)
  })

  test.each([
    [0, 'now'],
    [-1, 'in 1 s'],
    [59, '59 s ago'],
    [3_599, '59 min ago'],
    [-7_200, 'in 2 h'],
    [86_400 * 29, '29 d ago'],
    [86_400 * 31, '2026-03-04'],
  ])('a time %d seconds ago is %s', (seconds, said) => {
    expect(renderRelative(AT, Date.parse(AT) + seconds * 1000)).toBe(said)
  })

  test.each(['2026-03-04', 'x', '', '2026-99-99T99:99:99Z'])('%p is no time', text => {
    expect(renderRelative(text, 0)).toBe(text)
  })
})

describe('a line about rows', () => {
  const open = (shape: object, few = 10) => {
    let written = ''
    const write = (text: string) => {
      written += text
    }
    const progress = openRowProgress(shape, { isTTY: true, write, few })
    return { ...progress, read: () => written }
  }

  test('shows how far long work is, once for each change, and is cleared', () => {
    const { show, end, read } = open({})
    show(0, 20)
    show(10, 20)
    show(10, 20)
    end()
    expect(read()).toBe(
      `\r[${'.'.repeat(30)}] 0 % of 20 rows` +
        `\r[${'#'.repeat(15)}${'.'.repeat(15)}] 50 % of 20 rows\r\u001b[K`,
    )
  })

  test('counts where the end is not known', () => {
    const { show, end, read } = open({})
    show(12, null)
    end()
    expect(read()).toBe('\r12 rows\r\u001b[K')
  })

  test('is not there for few rows, for JSON, for fields and without a terminal', () => {
    for (const { show, end, read } of [
      open({}, 100),
      open({ json: true }),
      open({ field: 'id' }),
    ]) {
      show(10, 20)
      end()
      expect(read()).toBe('')
    }
    const silent = openRowProgress({}, { isTTY: false, write: () => expect.unreachable(), few: 1 })
    silent.show(10, 20)
    silent.end()
  })
})

describe('amounts in dollars', () => {
  test('have cents, and are a dash where they are not known', () => {
    expect([null, 0, 5, 0.7, -5].map(formatDollars)).toEqual([
      '-',
      '$0.00',
      '$5.00',
      '$0.70',
      '-$5.00',
    ])
  })

  test('never hide a significant digit', () => {
    for (const usd of [0.0000045, 0.000000001, 0.0149, 1.005])
      expect(Number(formatDollars(usd).slice(1))).toBe(usd)
  })
})

test('a reader that closes the pipe early causes no failure', async () => {
  const main = join(import.meta.dir, '../../src/cli/main.ts')
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const shell = Bun.spawn(
    [
      'sh',
      '-c',
      `"${process.execPath}" "${main}" models list --all --output all --data "${data}" | head -n 1`,
    ],
    {
      stdout: 'pipe',
      stderr: 'pipe',
    },
  )
  const [said, complaint] = await Promise.all([
    new Response(shell.stdout).text(),
    new Response(shell.stderr).text(),
  ])
  rmSync(data, { recursive: true })
  expect([said.startsWith('MODEL'), complaint]).toEqual([true, ''])
})

describe('JSON', () => {
  test('has no control character, C1 included, and keeps its value', () => {
    const all = String.fromCharCode(...Array.from({ length: 0x2100 }, (_, code) => code), 0xfeff)
    printJson({ 'name\u009b31m': all })
    expect(JSON.parse(out)).toEqual({ 'name\u009b31m': all })
    expect(out.replaceAll('\n', '')).toBe(toPrintable(out.replaceAll('\n', '')))
  })
})
