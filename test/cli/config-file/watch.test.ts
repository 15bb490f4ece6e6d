import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { ConfigWatch } from '../../../src/cli/config-file/watch.ts'
import { readConfig } from '../../../src/cli/config-file.ts'
import { measureBestLoopUse } from '../../support/event-loop.ts'
import { PROGRAM } from '../../support/server.ts'

let directory: string
let file: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  file = join(directory, 'gateway.yaml')
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const toPaths = (paths: string[]) => ({ paths, isNamed: paths.length === 1 })

interface Watched {
  gateway: Gateway
  watch: ConfigWatch
  /** Returns the events since the last call of this function. */
  told(): string[]
  /** Looks a number of times, and returns the events. */
  looks(times: number): Promise<string[]>
}

/** A gateway that was opened with the config at these paths, and the watch on that config. */
async function watched(places = [file]): Promise<Watched> {
  const paths = toPaths(places)
  const found = await readConfig(paths)
  const gateway = await openGateway({ config: found.config })
  const watch = new ConfigWatch(gateway, paths, found)
  const heard: string[] = []
  gateway.events.on('config.applied', ({ changed }) => heard.push(`applied ${changed}`))
  gateway.events.on('config.rejected', ({ error }) => heard.push(`rejected ${error.message}`))
  // The place in the file is left to `places.test.ts`.
  const told = () => heard.splice(0).map(line => line.replace(/(?<=yaml):\d+:\d+/, ''))
  const looks = async (times: number) => {
    for (let i = 0; i < times; i++) await watch.look()
    return told()
  }
  return { gateway, watch, told, looks }
}

const write = (text: string, to = file) => writeFileSync(to, text)

describe('a watched config file', () => {
  test('is applied when two looks have found the same change', async () => {
    write('service_name: one')
    const { gateway, looks } = await watched()
    expect(await looks(5)).toEqual([])
    write('service_name: two')
    expect(await looks(1)).toEqual([])
    expect(await looks(1)).toEqual(['applied service_name'])
    expect(gateway.config.service_name).toBe('two')
    expect(await looks(3)).toEqual([])
  })

  test('is applied if it changed between its reading at the start and the first look', async () => {
    write('service_name: one')
    const { looks } = await watched()
    write('service_name: two')
    expect(await looks(2)).toEqual(['applied service_name'])
  })

  test('is left alone while it is being written', async () => {
    write('service_name: one')
    const { gateway, looks } = await watched()
    await looks(2)
    truncateSync(file)
    for (const text of ['providers: {', ' sandbox', ': {}', '}', '\nservice_name: two']) {
      expect(await looks(1)).toEqual([])
      appendFileSync(file, text)
    }
    expect(await looks(1)).toEqual([])
    expect(await looks(1)).toEqual(['applied service_name,providers.sandbox'])
    expect(gateway.instance.configStatus.rejected).toBe(false)
  })

  test('is applied when another of the same size and age replaces it by renaming', async () => {
    write('service_name: one')
    utimesSync(file, 1_000, 1_000)
    const { looks } = await watched()
    await looks(2)
    const other = join(directory, 'other')
    write('service_name: two', other)
    utimesSync(other, 1_000, 1_000)
    renameSync(other, file)
    expect(await looks(2)).toEqual(['applied service_name'])
  })

  test('is read whole, one or the other, even when it is replaced meanwhile', async () => {
    const texts = ['service_name: one', `service_name: two\n# ${'x'.repeat(100)}`]
    for (let i = 0; i < 100; i++) {
      const [before = '', after = ''] = i % 2 ? texts : texts.toReversed()
      write(before)
      write(after, `${file}.new`)
      const reading = readConfig(toPaths([file]))
      renameSync(`${file}.new`, file)
      expect(texts).toContain((await reading).text)
    }
  })

  test('is applied when a link on its path changes, as in a cluster’s mount', async () => {
    for (const name of ['one', 'two']) {
      mkdirSync(join(directory, name))
      write(`service_name: ${name}`, join(directory, name, 'gateway.yaml'))
    }
    symlinkSync('one', join(directory, 'data'))
    symlinkSync('data/gateway.yaml', file)
    const { looks } = await watched()
    await looks(2)
    symlinkSync('two', join(directory, 'next'))
    renameSync(join(directory, 'next'), join(directory, 'data'))
    expect(await looks(2)).toEqual(['applied service_name'])
  })

  test('that is touched without a change is ignored, unless a reload is requested', async () => {
    write('service_name: one')
    const { watch, told, looks } = await watched()
    await looks(2)
    write('service_name: one')
    expect(await looks(3)).toEqual([])
    await watch.reload()
    expect(told()).toEqual(['applied '])
  })

  test('is read at once on request', async () => {
    write('service_name: one')
    const { watch, told } = await watched()
    write('service_name: two')
    await watch.reload()
    expect(told()).toEqual(['applied service_name'])
  })

  test('is applied in the order of the requests, one at a time', async () => {
    write('service_name: one')
    const { gateway, watch, told } = await watched()
    write('service_name: two')
    await Promise.all([watch.look(), watch.reload(), watch.reload(), watch.look(), watch.reload()])
    expect(told()).toEqual(['applied service_name', 'applied ', 'applied '])
    expect(gateway.config.service_name).toBe('two')
  })
})

describe('a wrong config file', () => {
  const TEXT = 'service_name: one'

  test.each([
    ['is empty', '', 'expected settings, found an empty file'],
    ['is blank', ' \n\n', 'expected settings, found an empty file'],
    [
      'is no YAML',
      'server: { port: 80',
      'The config file is not valid YAML: YAML Parse error: Unexpected token',
    ],
    ['is not a mapping', '- a', 'The config file: expected a mapping of settings'],
    [
      'does not match the schema',
      'service_name: 5',
      'service_name: expected string: lower-case letters, digits and _, a letter first, found a number',
    ],
    [
      'names an unset variable',
      `providers: { openai: { api_key: "\${GATEWAY_NO_SUCH}" } }`,
      'providers.openai.api_key: expected the environment variable GATEWAY_NO_SUCH, found nothing',
    ],
    [
      'lacks a credential',
      'providers: { openai: {} }',
      'providers.openai.api_key: expected the credential',
    ],
    [
      'is of bytes',
      '\u0000\u0001\ufffd',
      'The config file is not valid YAML: YAML Parse error: Unexpected character',
    ],
  ])(
    'because it %s, is reported once, as by `config check`, until the next good one',
    async (_, text, reason) => {
      write(TEXT)
      const { gateway, watch, told, looks } = await watched()
      const before = gateway.config
      write(text)
      expect(await looks(5)).toEqual([`rejected ${file}: ${reason}`])
      expect([gateway.config === before, gateway.instance.configStatus.rejected]).toEqual([
        true,
        true,
      ])
      const checked = Bun.spawnSync([...PROGRAM, 'config', 'check', file], {
        env: { ...process.env, NO_COLOR: '1' },
      })
      const stderr = checked.stderr.toString().replace(/(?<=yaml):\d+:\d+/, '')
      expect([checked.exitCode, stderr]).toEqual([2, `gateway: ${file}: ${reason}\n`])
      write('default_model: 6')
      expect(await looks(2)).toEqual([
        `rejected ${file}: default_model: expected string of at least 1 character, found a number`,
      ])
      write(TEXT)
      expect(await looks(3)).toEqual(['applied '])
      expect(gateway.instance.configStatus.rejected).toBe(false)
      await watch.reload()
      expect(told()).toEqual(['applied '])
    },
  )

  test('that is too large to be read without blocking is not read', async () => {
    write(TEXT)
    const { looks } = await watched()
    truncateSync(file, 17 * 1024 * 1024)
    expect(await looks(3)).toEqual([`rejected ${file}: expected at most 16777216 bytes`])
  })

  test('that is deleted is reported, and nothing falls back to the defaults', async () => {
    write(TEXT)
    const { gateway, looks } = await watched()
    await looks(2)
    rmSync(file)
    expect(await looks(1)).toEqual([])
    expect(await looks(5)).toEqual([`rejected ${file}: the config file cannot be read`])
    expect(gateway.config.service_name).toBe('one')
    write('service_name: two')
    expect(await looks(2)).toEqual(['applied service_name'])
  })

  test('that could not be read for another reason is tried again, and reported once', async () => {
    write(TEXT)
    const { gateway, looks } = await watched()
    await looks(2)
    const { countFreeCalls } = gateway.store.generations
    gateway.store.generations.countFreeCalls = () => Promise.reject(new Error('The disk is gone'))
    write('limits: { free_models: { requests_per_day: 1 } }')
    expect(await looks(5)).toEqual(['rejected Internal Server Error'])
    expect([gateway.config.service_name, gateway.config.limits.free_models]).toEqual(['one', false])
    gateway.store.generations.countFreeCalls = countFreeCalls
    expect(await looks(1)).toEqual(['applied service_name,limits.free_models'])
    expect(await looks(3)).toEqual([])
  })

  test('is reported once for each change, and on request', async () => {
    write(TEXT)
    const { watch, told, looks } = await watched()
    write('service_name: 5')
    expect(await looks(3)).toHaveLength(1)
    write('service_name:   6')
    expect(await looks(3)).toHaveLength(1)
    await watch.reload()
    expect(told()).toHaveLength(1)
  })

  test('that is deleted is reported each time', async () => {
    write(TEXT)
    const { gateway, looks } = await watched()
    for (let i = 0; i < 2; i++) {
      rmSync(file)
      expect(await looks(3)).toEqual([expect.stringContaining('rejected')])
      expect(gateway.instance.configStatus.rejected).toBe(true)
      write(TEXT)
      expect(await looks(3)).toEqual(['applied '])
    }
  })

  test.each([
    ['a directory', () => mkdirSync(file)],
    ['a pipe without a writer', () => void Bun.spawnSync(['mkfifo', file])],
  ])('that is replaced by %s is reported at once', async (_, make) => {
    write(TEXT)
    const { watch, told, looks } = await watched()
    await looks(1)
    rmSync(file)
    make()
    expect(await looks(5)).toEqual([`rejected ${file}: expected a file, which can be read again`])
    await watch.reload()
    expect(told()).toHaveLength(1)
    rmSync(file, { recursive: true })
    write('service_name: two')
    expect(await looks(2)).toEqual(['applied service_name'])
  })
})

describe('a config with several possible paths', () => {
  const places = () => [file, join(directory, 'second.yaml')]

  test('is applied when it appears where none was', async () => {
    const { gateway, looks } = await watched(places())
    expect(await looks(5)).toEqual([])
    write('service_name: two', join(directory, 'second.yaml'))
    expect(await looks(2)).toEqual(['applied service_name'])
    write('service_name: one')
    expect(await looks(2)).toEqual(['applied service_name'])
    expect(gateway.config.service_name).toBe('one')
  })

  test('is the remaining one when the first is deleted, as after a restart', async () => {
    write('service_name: one')
    write('service_name: two', join(directory, 'second.yaml'))
    const { gateway, looks } = await watched(places())
    rmSync(file)
    expect(await looks(2)).toEqual(['applied service_name'])
    expect(gateway.config.service_name).toBe('two')
  })

  test('is not the second where the first is no file', async () => {
    mkdirSync(file)
    write('service_name: two', join(directory, 'second.yaml'))
    await expect(readConfig(toPaths(places()))).rejects.toThrow(
      `${file}: the config file cannot be read`,
    )
    rmSync(file, { recursive: true })
    const { gateway, looks } = await watched(places())
    await looks(1)
    Bun.spawnSync(['mkfifo', file])
    expect(await looks(3)).toEqual([`rejected ${file}: expected a file, which can be read again`])
    expect(gateway.config.service_name).toBe('two')
  })

  test('keeps its values when all are deleted', async () => {
    write('service_name: one')
    const { gateway, looks } = await watched(places())
    rmSync(file)
    expect(await looks(5)).toEqual([`rejected ${file}: expected the config file, found nothing`])
    expect(gateway.config.service_name).toBe('one')
  })
})

test('a config that came through a pipe is not read again', async () => {
  const fifo = join(directory, 'pipe')
  Bun.spawnSync(['mkfifo', fifo])
  const writing = Bun.write(join(directory, 'source'), 'service_name: one').then(() =>
    Bun.spawn(['sh', '-c', `cat ${join(directory, 'source')} > ${fifo}`]),
  )
  const { gateway, watch, told, looks } = await watched([fifo])
  await writing
  expect(gateway.config.service_name).toBe('one')
  expect(await looks(5)).toEqual([])
  await watch.reload()
  expect(told()).toEqual([`rejected ${fifo}: expected a file, which can be read again`])
})

describe('a large config file', () => {
  const many = (build: (i: number) => string) =>
    Array.from({ length: 10_000 }, (_, i) => build(i)).join('\n')

  test.each([
    [
      '10,000 unknown names',
      many(i => `name${i}: 1`),
      'only fields that there are, found a number',
    ],
    [
      '10,000 names within a section',
      `server:\n${many(i => `  n${i}: 1`)}`,
      'server: expected only fields',
    ],
    ['100,000 brackets', '['.repeat(100_000), 'is not valid YAML'],
  ])('of %s is refused, and no call waits for that', async (_, text, message) => {
    write('service_name: one')
    const { watch, told } = await watched()
    write(text)
    const { longest } = await measureBestLoopUse(50, () => watch.reload())
    const [refused = ''] = told()
    expect(refused).toContain(message)
    expect(refused.split('\n').length).toBeLessThan(30)
    expect(longest).toBeLessThan(50)
  })

  test('that is right is applied', async () => {
    write('service_name: one')
    const { gateway, watch, told } = await watched()
    write(`service_name: two\n# ${'x'.repeat(100_000)}`)
    await watch.reload()
    expect([told(), gateway.config.service_name]).toEqual([['applied service_name'], 'two'])
  })
})
