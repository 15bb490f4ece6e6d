import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/**
 * The packages that the catalogue is made from: models, prices, release days. To refresh, raise a
 * version and run `bun run catalog`.
 */
export const SOURCES = [
  { name: '@earendil-works/pi-ai', version: '1.5.2', licence: 'MIT' },
  { name: '@pydantic/genai-prices', version: '0.1.8', licence: 'MIT' },
  { name: '@cline/llms', version: '0.0.86', licence: 'Apache-2.0' },
] as const

/**
 * A model of pi-ai, per provider. Prices are in USD per million tokens. 0 stands for both unknown
 * and free.
 */
export interface PiModel {
  type: 'chat' | 'image' | 'classifier'
  id: string
  name: string
  reasoning?: boolean
  /**
   * Maps each effort to the provider's word for it, or to null where it cannot be requested. `off`
   * is no reasoning at all.
   */
  thinkingLevelMap?: Record<string, string | null>
  input: string[]
  output?: string[]
  cost: PiCost & { tiers?: (PiCost & { inputTokensAbove: number })[] }
  contextWindow?: number
  maxTokens?: number
}

export interface PiCost {
  input: number
  output: number
  cacheRead?: number
  cacheWrite?: number
}

/** A model of genai-prices, per provider. */
export interface PricedModel {
  id: string
  name?: string
  deprecated?: boolean
  /** The rule that matches this model's names. */
  match?: unknown
  context_window?: number
  prices:
    | GenaiPrices
    | {
        constraint?: { type: 'start_date' | 'time_of_date'; start_date?: string }
        prices: GenaiPrices
      }[]
}

export type GenaiPrices = Record<
  string,
  number | { base: number; tiers: { start: number; price: number }[] }
>

export interface Sources {
  /** By pi-ai's name of the provider. */
  pi: Map<string, PiModel[]>
  /** By genai-prices' name of the provider. */
  priced: (provider: string) => PricedModel[]
  /**
   * The names of models at each provider, with a day for each. The days are the providers' and do
   * not all agree.
   */
  released: [name: string, day: string][]
}

/** Fetches the packages into a temporary directory, and reads their data. */
export async function readSources(): Promise<Sources> {
  const directory = mkdtempSync(join(tmpdir(), 'catalog-'))
  try {
    const [pi, genai, cline] = await Promise.all(
      SOURCES.map(({ name, version }) => unpack(`${name}@${version}`, directory)),
    )
    return {
      pi: await readPi(join(pi ?? '', 'dist/providers')),
      priced: await readPriced(join(genai ?? '', 'dist/index.js')),
      released: readReleased(readFileSync(join(cline ?? '', 'dist/models.js'), 'utf8')),
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function unpack(spec: string, directory: string): Promise<string> {
  const [file] = JSON.parse(await runCommand(['npm', 'pack', '--json', spec], directory)) as {
    filename: string
  }[]
  const into = join(directory, basename(file?.filename ?? '', '.tgz'))
  await runCommand(['mkdir', '-p', into], directory)
  await runCommand(['tar', 'xzf', file?.filename ?? '', '-C', into], directory)
  return join(into, 'package')
}

async function runCommand(command: string[], cwd: string): Promise<string> {
  const child = Bun.spawn(command, { cwd, stdout: 'pipe', stderr: 'ignore' })
  const text = await new Response(child.stdout).text()
  if ((await child.exited) !== 0) throw new Error(`${command.join(' ')} failed`)
  return text
}

// The modules beside the data only flatten it.
async function readPi(providers: string): Promise<Map<string, PiModel[]>> {
  const names = readdirSync(providers).filter(name => name.endsWith('.models.js'))
  return new Map(
    names.map(name => [
      basename(name, '.models.js'),
      readModels(join(providers, 'data', `${basename(name, '.models.js')}.json`)),
    ]),
  )
}

function readModels(file: string): PiModel[] {
  const groups = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Record<string, PiModel>>
  return Object.values(groups).flatMap(group => Object.values(group))
}

async function readPriced(module: string): Promise<Sources['priced']> {
  const { findProvider } = (await import(module)) as {
    findProvider: (by: { providerId: string }) => { models: PricedModel[] } | undefined
  }
  return provider => findProvider({ providerId: provider })?.models ?? []
}

// Its list is one literal among code that imports other packages, so it is read as text. A model
// begins with its id.
function readReleased(module: string): Sources['released'] {
  const models = module.split(/(?=\{id:")/)
  return models.flatMap(model => {
    const name = /^\{id:"([^"]+)",name:/.exec(model)?.[1]
    const day = /[,{]releaseDate:"([^"]+)"/.exec(model)?.[1]
    return name && day ? [[name, day] as [string, string]] : []
  })
}
