import { Option } from 'commander'
import { invalid } from '../../../core/errors.ts'
import { type Json, parseObject } from '../../../core/kernel/json.ts'
import type { Fields, Flags } from '../../fields.ts'

/** Where the config of a destination is read from. Later ones win. */
interface SettingsFlags {
  settings?: string
  set?: string[]
  setEnv?: string[]
}

/** Declares the options that fill `config`: a file, single fields, and fields from variables. */
export const createSettingsFields = (): Fields => ({
  options: [
    new Option('--settings <file>', 'a JSON file of its config; - for standard input'),
    new Option('--set <field=value...>', 'a field of its config; headers.NAME=value for a header'),
    new Option(
      '--set-env <field=variable...>',
      'the same from an environment variable: a secret does not belong on a command line',
    ),
  ],
  flags: { config: '--settings' },
  read: readSettings,
})

async function readSettings(flags: Flags): Promise<{ config?: Json }> {
  const { settings, set = [], setEnv = [] } = flags as SettingsFlags
  if (settings === undefined && set.length + setEnv.length === 0) return {}
  const config: Json = settings === undefined ? {} : await readJsonObject(settings, 'settings')
  for (const text of set) setField(config, ...splitPair(text, 'set'))
  for (const text of setEnv) {
    const [field, variable] = splitPair(text, 'set-env')
    setField(config, field, readVariable(variable))
  }
  return { config }
}

function splitPair(text: string, option: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw invalid(`--${option}: expected a field, an equals sign and a value`)
  return [text.slice(0, at), text.slice(at + 1)]
}

function setField(config: Json, field: string, value: string): void {
  if (!field.startsWith('headers.')) config[field] = value
  else config.headers = { ...(config.headers as Json), [field.slice('headers.'.length)]: value }
}

function readVariable(name: string): string {
  const value = process.env[name]
  if (value === undefined)
    throw invalid('--set-env: expected the name of an environment variable that is set')
  return value.trim()
}

/** Reads a file that holds a JSON object; `-` is standard input. Throws 400 for anything else. */
export async function readJsonObject(file: string, option: string): Promise<Json> {
  const source = file === '-' ? Bun.stdin : Bun.file(file)
  const text = await source.text().catch(() => {
    throw invalid(`--${option}: the file cannot be read`)
  })
  const object = parseObject(text)
  if (!object) throw invalid(`--${option}: expected a JSON object`)
  return object
}
