import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { toPrintable } from '../../src/base/printable.ts'
import { readTypedWord, renderForBash, SHELLS, splitLine } from '../../src/cli/completions/words.ts'
import { completeLine } from '../../src/cli/completions.ts'
import { createProgram } from '../../src/cli/main.ts'
import { runCommand } from '../support/commands.ts'
import { PROGRAM } from '../support/server.ts'
import { openTerminal } from '../support/terminal.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-completions-'))
const data = join(directory, 'data')
const pwned = join(directory, 'pwned')

/** A name that every shell would run, if it were not data. */
const EVIL = `evil $(touch ${pwned}) \`touch ${pwned}\` ; touch ${pwned} & "x" 'y' * ~ # \\ | <> é漢`

beforeAll(async () => {
  await runCommand(['init', '--data', data])
  for (const name of [EVIL, 'laptop', 'twice', 'twice', '-dash', 'tab\there'])
    await runCommand(['keys', 'create', `--name=${name}`, '--data', data])
  await Bun.write(join(directory, 'preset.json'), '{"model":"sandbox/echo"}')
  const body = join(directory, 'preset.json')
  await runCommand(['presets', 'create', 'helper', '--body', body, '--data', data])
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Lists how a line may go on, as fish gets it, without the meanings. */
async function complete(...words: string[]): Promise<string[]> {
  const args = ['completions', 'fish', '--', ...words]
  const { code, stdout, stderr } = await runCommand(args, { env: { GATEWAY_DATA: data } })
  expect([code, stderr]).toEqual([0, ''])
  return stdout
    .split('\n')
    .slice(0, -1)
    .map(line => line.split('\t')[0] ?? '')
}

describe('a line goes on', () => {
  test.each([
    [['ke'], ['values', 'keys']],
    [
      ['keys', 'ro'],
      ['values', 'rotate'],
    ],
    [
      ['help', 'keys', 'ro'],
      ['values', 'rotate'],
    ],
    [
      ['keys', 'list', '--dis'],
      ['values', '--disabled'],
    ],
    [['keys', 'list', '--disabled', '--dis'], ['values']],
    [
      ['explain', '--region', 'e'],
      ['values', 'europe'],
    ],
    [
      ['explain', '--region=e'],
      ['values', '--region=europe'],
    ],
    [['explain', ''], ['files']],
    [['keys', 'list', '--data', ''], ['files']],
    [
      ['completions', ''],
      ['values', ...SHELLS],
    ],
    [['nothing', 'at', 'a'], ['values']],
    [['keys', 'get', '--', '--'], ['values']],
  ])('%j with %j', async (words, expected) => {
    expect(await complete(...words)).toEqual(expected)
  })

  test('with names of what there is, or with labels where a name would not do', async () => {
    const [, ...found] = await complete('keys', 'get', '')
    expect(found).toEqual(expect.arrayContaining([EVIL, 'laptop', 'inference', 'management']))
    // Two that share a name, one that looks like an option, and one with a tab.
    expect(found.filter(name => /^gw-v1-\w{3}\.{3}\w{3}$/.test(name))).toHaveLength(4)
    expect(found).toHaveLength(8)
    expect(await complete('generations', 'list', '--key', 'lap')).toEqual(['values', 'laptop'])
    expect(await complete('generations', 'list', '--key=lap')).toEqual(['values', '--key=laptop'])
    expect(await complete('presets', 'get', 'he')).toEqual(['values', 'helper'])
    expect(await complete('keys', 'list', '--workspace', '')).toEqual(['values', 'default'])
  })

  test('with models: those that can be called, or all where a command takes them', async () => {
    expect(await complete('try', 'sandbox/e')).toEqual(['values', 'sandbox/echo', 'sandbox/embed'])
    expect(await complete('try', 'openai/')).toEqual(['values'])
    expect(await complete('models', 'get', 'openai/')).toContain('openai/gpt-4o')
    expect(await complete('guardrails', 'create', '--allow-models', 'x/y,openai/gpt-4o-m')).toEqual(
      expect.arrayContaining(['x/y,openai/gpt-4o-mini']),
    )
    expect(await complete('byok', 'create', '--provider', 'anthr')).toEqual(['values', 'anthropic'])
    expect(await complete('providers', 'wake', 'sandbox/echo')).toContain(
      'sandbox/echo sandbox/echo',
    )
  })

  test('with nothing, in silence, where there is no data or no config, and makes neither', async () => {
    const nowhere = join(directory, 'nowhere')
    const broken = join(directory, 'broken.yaml')
    await Bun.write(broken, 'providers: [')
    expect(await complete('keys', 'get', '--data', nowhere, 'inf')).toEqual(['values'])
    expect(await complete('keys', 'get', '--config', broken, 'inf')).toEqual(['values'])
    expect(existsSync(nowhere)).toBe(false)
  })
})

test('every place of every command has an answer', async () => {
  const program = await createProgram()
  const asked: string[] = []
  const list = async (source: unknown) => {
    asked.push(typeof source === 'string' ? source : (source as { noun: string }).noun)
    return []
  }
  for (const noun of program.commands)
    for (const verb of noun.commands.length > 0 ? noun.commands : [noun]) {
      const words = verb === noun ? [noun.name()] : [noun.name(), verb.name()]
      for (const { long } of verb.options)
        await completeLine(program, [...words, `${long}`, ''], list)
      await completeLine(program, [...words, ''], list)
    }
  for (const noun of [
    'API key',
    'workspace',
    'member',
    'preset',
    'guardrail',
    'models',
    'endpoints',
  ])
    expect(asked).toContain(noun)
})

describe('words', () => {
  const BREAKS = ' \t\n"\'><=;|&(:@'

  test('are split where a shell splits them', () => {
    expect(splitLine(`gateway keys get 'a b' c\\ d "e\\"f`).map(({ value }) => value)).toEqual([
      ...['gateway', 'keys', 'get', 'a b', 'c d', 'e"f'],
    ])
    expect(splitLine('gateway keys ').map(({ value }) => value)).toEqual(['gateway', 'keys', ''])
  })

  test('that bash gets are read by it as what was meant, whatever is in them', async () => {
    const texts = fc.sample(fc.string({ unit: 'grapheme', maxLength: 20 }), {
      numRuns: 200,
      seed: 7,
    })
    const plain = texts.filter(text => text !== '' && toPrintable(text) === text)
    const lines = plain.map(text => renderForBash(text, readTypedWord(''), BREAKS))
    const script = lines.map(line => `printf '%s\\0' ${line}`).join('\n')
    const { stdout } = Bun.spawnSync(['bash', '-c', script], { cwd: directory })
    expect(stdout.toString().split('\0').slice(0, -1)).toEqual(plain)
  })

  test('go on after an open quote, and after the last break of readline', () => {
    const render = (candidate: string, raw: string) =>
      renderForBash(candidate, readTypedWord(raw), BREAKS)
    expect(render('a $b "c"', '"a')).toBe('a \\$b \\"c\\"')
    expect(render('a $b', "'a")).toBe('a $b')
    expect(render("it's", "'it")).toBeUndefined()
    expect(render('hey!', '"he')).toBeUndefined()
    expect(render('openai/gpt:free', 'openai/gpt:f')).toBe('free')
    expect(render('--key=la ptop', '--key=la')).toBe('la\\ ptop')
    expect(render('a:b', 'a\\:')).toBe('a:b')
  })
})

/** How each shell starts with the completions of a program, and its prompt. */
const STARTS: Record<string, (script: string) => Promise<string[]>> = {
  async bash(script) {
    await Bun.write(join(directory, 'bashrc'), `PS1='READY> '\nsource ${script}\n`)
    return ['bash', '--noprofile', '--rcfile', join(directory, 'bashrc'), '-i']
  },
  async zsh(script) {
    const lines = ["PS1='READY> '", 'autoload -Uz compinit', 'compinit -u -D', `source ${script}`]
    await Bun.write(join(directory, '.zshrc'), `${lines.join('\n')}\n`)
    return ['zsh', '-d', '-i']
  },
  async fish(script) {
    const prompt = 'function fish_prompt; echo -n "READY> "; end; set fish_greeting'
    return ['fish', '--no-config', '-C', `${prompt}; source ${script}`, '-i']
  },
}

/** A program that completes as gateway does, and shows the words that it gets otherwise. */
async function installProgram(): Promise<string> {
  const bin = join(directory, 'bin')
  const path = join(bin, 'gateway')
  const lines = [
    '#!/bin/sh',
    `if [ "$1" = completions ]; then exec ${PROGRAM.join(' ')} "$@"; fi`,
    'for word in "$@"; do printf "<%s>" "$word"; done; echo',
  ]
  await Bun.write(path, `${lines.join('\n')}\n`)
  chmodSync(path, 0o755)
  return bin
}

for (const shell of SHELLS)
  test.skipIf(!Bun.which(shell))(`${shell} completes, and runs nothing of a name`, async () => {
    const script = join(directory, `script.${shell}`)
    await Bun.write(script, (await runCommand(['completions', shell])).stdout)
    const terminal = openTerminal((await STARTS[shell]?.(script)) ?? [], {
      ...{ cols: 400, cwd: directory },
      env: {
        ...{ GATEWAY_DATA: data, ZDOTDIR: directory, HOME: directory },
        PATH: `${await installProgram()}:${process.env.PATH}`,
      },
    })
    /** Types the beginning of a line, completes it when it is there, and returns what it ran. */
    const run = async (typed: string, completed: string, got: string) => {
      await terminal.see('READY> ')
      terminal.type(`${typed}\t`)
      await terminal.see(completed)
      terminal.forget()
      terminal.type('\r')
      await terminal.see(got)
    }
    await run('gateway keys get ev', 'é漢', `<keys><get><${EVIL}>`)
    await run('gateway keys get "lap', 'laptop', '<keys><get><laptop>')
    await run('gateway usage --key=lap', 'laptop', '<usage><--key=laptop>')
    await terminal.see('READY> ')
    terminal.type('exit\r')
    await terminal.child.exited
    expect(existsSync(pwned)).toBe(false)
  })

test('a shell that is none is refused', async () => {
  const { code, stderr } = await runCommand(['completions', 'tcsh'])
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('Allowed choices are bash, zsh, fish'),
  ])
})
