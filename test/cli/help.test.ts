import { describe, expect, test } from 'bun:test'
import type { Command } from 'commander'
import { VERSION } from '../../src/base/version.ts'
import { EXAMPLES } from '../../src/cli/help/examples.data.ts'
import { findExamples } from '../../src/cli/help.ts'
import { createProgram } from '../../src/cli/main.ts'
import { runCommand } from '../support/commands.ts'

/** Lists the commands that do something, each with its words. */
function listVerbs(command: Command, words: string[] = []): [string, Command][] {
  return command.commands.length === 0
    ? [[words.join(' '), command]]
    : command.commands.flatMap(child => listVerbs(child, [...words, child.name()]))
}
const verbs = listVerbs(await createProgram())

describe('the help', () => {
  test.each(verbs)('of %s has examples, its own options, and then those of all', async words => {
    const { stdout } = await runCommand([...words.split(' '), '--help'])
    expect(stdout).toContain(`\nExamples:\n  gateway ${words}`)
    const headings = [...stdout.matchAll(/^(Required|Options|Options of every command):$/gm)]
    const rank = headings.map(([, name = '']) =>
      ['Required', 'Options', 'Options of every command'].indexOf(name),
    )
    expect(rank).toEqual(rank.toSorted())
  })

  test('has no example of a command that is none', () => {
    const names = verbs.map(([words]) => words)
    expect(Object.keys(EXAMPLES).filter(words => !names.includes(words))).toEqual([])
  })

  test.each(verbs.flatMap(([, command]) => findExamples(command)))(
    'gateway %s is understood',
    async line => {
      const program = await createProgram(line.split(' ')[0])
      const words = line.split(' ')
      let command: Command = program
      while (command.commands.length > 0) command = takeChild(command, words)
      command.exitOverride().configureOutput({ writeErr: () => undefined })
      command.action(() => undefined)
      expect(() => command.parse(words, { from: 'user' })).not.toThrow()
    },
  )

  test('marks what is required, also in the usage', async () => {
    const { stdout } = await runCommand(['keys', 'create', '--help'])
    expect(stdout).toContain('Usage: gateway keys create --name <name> [options]\n')
    expect(stdout).toMatch(/\nRequired:\n {2}--name <name> [^\n]+\n\nOptions:\n/)
  })
})

function takeChild(command: Command, words: string[]): Command {
  const word = words.shift()
  const child = command.commands.find(one => one.name() === word)
  if (!child) throw new Error(`${word} is no command`)
  return child
}

describe('of the commands', () => {
  const optionsOf = (command: Command) =>
    command.options.flatMap(({ long, hidden }) => (hidden ? [] : [String(long)]))
  const endingIn = (...names: string[]) =>
    verbs.filter(([, command]) => names.includes(command.name()))

  // A workspace has a budget for each of four intervals.
  test.each(
    endingIn('list', 'versions', 'assignments', 'logs', 'usage').filter(
      // All of both fit on a page.
      ([words]) => words !== 'budgets list' && words !== 'nodes list',
    ),
  )('%s pages', (_, command) => {
    const options = optionsOf(command)
    expect(options).toContain('--limit')
    expect(options.includes('--offset') || options.includes('--cursor')).toBe(true)
  })

  test.each(endingIn('delete', 'revoke', 'deactivate', 'kill', 'drop'))(
    '%s has --yes',
    (_, command) => {
      expect(optionsOf(command)).toContain('--yes')
    },
  )

  test.each(verbs)('%s takes --config and --data, read or not', (_, command) => {
    const taken = command.options.map(({ long }) => long)
    expect(taken).toEqual(expect.arrayContaining(['--config', '--data']))
  })

  test.each([[['version']], [['man', 'keys']], [['completions', 'bash']], [['help', 'keys']]])(
    '%p works with a config that it does not read',
    async words => {
      const line = [...words, '--config', 'nowhere.yaml']
      const { code, stdout } = await runCommand(line)
      expect([code, stdout]).toEqual([0, (await runCommand(words)).stdout])
    },
  )

  const common = ['--json', '--data', '--config']
  const lacking: Record<string, string[]> = {
    serve: ['--json'],
    setup: ['--json'],
    agent: ['--json'],
    try: ['--json'],
    selftest: ['--data', '--config'],
    bench: ['--data', '--config'],
    'store copy': ['--data', '--config'],
    tui: ['--json'],
    version: ['--data', '--config'],
    completions: common,
    man: common,
    help: common,
  }

  test.each(verbs)(
    '%s has the options of every command, if they mean anything',
    (words, command) => {
      const expected = common.filter(option => !lacking[words]?.includes(option))
      const options = optionsOf(command)
      expect(common.filter(option => options.includes(option))).toEqual(expected)
      expect([words, options.includes('--field')]).toEqual([words, options.includes('--json')])
    },
  )
})

describe('gateway help', () => {
  test.each([[], ['keys'], ['keys', 'create'], ['scim', 'token', 'create']])(
    '%p %p %p shows the same as --help',
    async (...words) => {
      const [help, option] = [
        await runCommand(['help', ...words]),
        await runCommand([...words, '--help']),
      ]
      expect([help.code, help.stdout]).toEqual([0, option.stdout])
    },
  )

  test.each([[['nothing']], [['keys', 'crate']], [['keys', 'create', 'more']]])(
    '%p is wrong usage, in one line',
    async words => {
      const { code, stdout, stderr } = await runCommand(['help', ...words])
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toBe(`gateway: unknown command '${words.join(' ')}'\n`)
    },
  )
})

test('gateway version prints the version alone, and with --json its commit and what it runs on', async () => {
  expect(await runCommand(['version'])).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' })
  expect(JSON.parse((await runCommand(['version', '--json'])).stdout)).toEqual({
    version: VERSION,
    ...{ commit: 'unknown', date: 'unknown' },
    bun: Bun.version,
    platform: process.platform,
    arch: process.arch,
  })
})
