import { type Static, Type } from '@sinclair/typebox'
import { Auth, AwsConfig, ServiceAccountConfig } from './config/credentials.ts'
import { UsdPerMillionTokens } from './config/prices.ts'
import { Quirks } from './config/quirks.ts'
import { type GatewayError, invalid } from './errors.ts'
import { type Misfit, misfit } from './kernel/schema.ts'
import { closed, oneOf } from './kernel/schema-builders.ts'
import { ALL_PARAMETERS } from './language/parameters.ts'
import { INPUT_MODALITIES, OUTPUT_MODALITIES, QUANTIZATIONS } from './language/words.data.ts'

const Text = (description: string) => Type.String({ minLength: 1, description })
const Hosts = Type.Array(Type.String({ minLength: 1 }))
const Most = (description: string) =>
  Type.Integer({ minimum: 1, maximum: 1_000_000_000, description })
const Seconds = (value: number, description: string) =>
  Type.Number({ default: value, exclusiveMinimum: 0, maximum: 86_400, description })

const ProviderConfig = Type.Partial(
  Type.Object({
    name: Text('How the provider is shown'),
    protocol: Text('How it speaks: openai-chat, anthropic-messages, gemini, …'),
    base_url: Type.String({
      format: 'url',
      description: 'What stands before the protocol’s own path',
    }),
    api_key: Type.String({ format: 'visible-ascii', description: 'The credential' }),
    auth: Auth,
    aws: AwsConfig,
    service_account: ServiceAccountConfig,
    region: Type.String({
      format: 'slug',
      description: 'Where the provider runs, if its address has a region',
    }),
    project: Type.String({
      format: 'slug',
      description: 'Whose account it is, if its address has a project',
    }),
    headers: Type.Record(Type.String(), Type.String({ format: 'visible-ascii' }), {
      description: 'Headers sent with every request',
    }),
    quirks: Type.Partial(Quirks, {
      ...closed,
      description: 'In what it differs from others that speak OpenAI’s chat',
    }),
  }),
  closed,
)
export type ProviderConfig = Static<typeof ProviderConfig>

const EndpointConfig = Type.Object(
  {
    provider: Text('A name under providers, or a built-in one'),
    model: Text('The provider’s own name for the model'),
    protocol: Type.Optional(
      Text('How this model is spoken to, where it is not the provider’s own way'),
    ),
    usd_per_million_tokens: Type.Optional(UsdPerMillionTokens),
    context_length: Type.Optional(Type.Integer({ minimum: 1 })),
    max_completion_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
    supported_parameters: Type.Optional(
      Type.Array(oneOf(...ALL_PARAMETERS), { description: 'Omitted: all' }),
    ),
    data_policy: Type.Optional(
      Type.Object(
        {
          training: Type.Optional(Type.Boolean()),
          retention_days: Type.Optional(Type.Integer({ minimum: 0 })),
        },
        {
          ...closed,
          description:
            'What was agreed with the provider; what is publicly known of him when omitted',
        },
      ),
    ),
    region: Type.Optional(Type.String()),
    quantization: Type.Optional(oneOf(...QUANTIZATIONS)),
  },
  closed,
)
export type EndpointConfig = Static<typeof EndpointConfig>

const ModelConfig = Type.Object(
  {
    id: Type.String({ pattern: '^[^/\\s]+/[^/\\s]+$', description: '<author>/<slug>' }),
    name: Type.Optional(Text('How the model is shown')),
    description: Type.Optional(Type.String()),
    context_length: Type.Optional(Type.Integer({ minimum: 1 })),
    input_modalities: Type.Optional(Type.Array(oneOf(...INPUT_MODALITIES), { minItems: 1 })),
    output_modalities: Type.Optional(Type.Array(oneOf(...OUTPUT_MODALITIES), { minItems: 1 })),
    distillable: Type.Optional(
      Type.Boolean({ description: 'Whether its author allows its texts to train other models' }),
    ),
    endpoints: Type.Array(EndpointConfig, { minItems: 1 }),
  },
  closed,
)
export type ModelConfig = Static<typeof ModelConfig>

/** Every setting: its name, its default, its meaning. */
export const Config = Type.Object(
  {
    service_name: Type.String({
      default: 'gateway',
      pattern: '^[a-z][a-z0-9_]*$',
      description: 'The name in headers and metadata',
    }),
    server: Type.Object(
      {
        host: Type.String({
          default: '127.0.0.1',
          minLength: 1,
          description: 'The address to listen on',
        }),
        port: Type.Integer({
          default: 8080,
          minimum: 0,
          maximum: 65_535,
          description: 'The port; 0 picks a free one',
        }),
        site_url: Type.Optional(
          Type.String({
            format: 'url',
            description: 'Where users find this gateway; http://HOST:PORT when omitted',
          }),
        ),
      },
      { ...closed, default: {} },
    ),
    regions: Type.Partial(Type.Object({ europe: Hosts, us: Hosts }), {
      ...closed,
      default: {},
      description: 'Host header → ingress region; anything else is global',
    }),
    default_model: Type.String({
      default: 'sandbox/echo',
      minLength: 1,
      description: 'The model of a call that names none',
    }),
    providers: Type.Record(Type.String(), ProviderConfig, {
      default: {},
      description: 'Who can be called',
    }),
    models: Type.Array(ModelConfig, {
      default: [],
      description: 'Added to the built-in catalogue, or laid over its model of the same id',
    }),
    routing: Type.Object(
      {
        choice: Type.Union([Type.Literal('weighted'), Type.Literal('listed')], {
          default: 'weighted',
          description:
            'Who is asked first of those that serve a model: one at random, the cheaper the likelier, or whoever is listed first',
        }),
        failures: Type.Integer({
          default: 5,
          minimum: 0,
          maximum: 1_000_000,
          description:
            'After so many failures in a row, or when half of twice as many calls fail within 30 seconds, an endpoint rests; 0: never',
        }),
        hedge: Type.Union([Type.Boolean(), Type.Literal('never')], {
          default: false,
          description:
            'A streamed call that has no first part when 95 of 100 have one asks a second endpoint as well, where provider.hedge does not say otherwise; never: whatever that says',
        }),
        pause_seconds: Seconds(
          5,
          'How long it rests; twice as long each time it fails again, to five minutes',
        ),
      },
      { ...closed, default: {} },
    ),
    security: Type.Object(
      {
        allow_private_urls: Type.Array(Type.String(), {
          default: [],
          description: 'Private hosts that a caller’s URL may name',
        }),
      },
      { ...closed, default: {} },
    ),
    limits: Type.Object(
      {
        strict: Type.Boolean({
          default: false,
          description:
            'A call that a limit cannot pay in full is sent with the max_tokens that it can, rather than refused',
        }),
        max_tokens: Type.Integer({
          default: 16_384,
          minimum: 16,
          maximum: 10_000_000,
          description:
            'The output that is set aside for, and sent along under a limit, where neither the caller nor the endpoint bounds it',
        }),
        credits: Type.Boolean({
          default: false,
          description:
            'Nothing is spent through the gateway’s own credentials but what was paid in (gateway credits add)',
        }),
        requests_per_minute: Type.Optional(Most('The calls that one API key may make in a minute')),
        concurrent_requests: Type.Optional(Most('The calls of one API key that may run at once')),
        free_models: Type.Union(
          [
            Type.Literal(false),
            Type.Object(
              {
                requests_per_minute: Type.Optional(
                  Most('The calls of :free models that all keys together may make in a minute'),
                ),
                requests_per_day: Type.Optional(
                  Most('The same in a day, midnight to midnight UTC'),
                ),
              },
              closed,
            ),
          ],
          {
            default: false,
            description:
              'How often :free models may be called; the public service allows 20 in a minute and 1000 in a day',
          },
        ),
      },
      { ...closed, default: {} },
    ),
    timeouts: Type.Object(
      {
        connect_seconds: Seconds(5, 'Until a provider has accepted the connection'),
        first_byte_seconds: Seconds(600, 'Silence before a whole answer begins'),
        first_byte_stream_seconds: Seconds(120, 'Silence before a streamed answer begins'),
        idle_seconds: Seconds(90, 'Silence within a streamed answer'),
        total_seconds: Seconds(1800, 'The longest that one answer may take'),
        keep_alive_seconds: Seconds(10, 'Between two comments to a waiting stream'),
      },
      { ...closed, default: {} },
    ),
    storage: Type.Object(
      {
        durability: Type.Union([Type.Literal('normal'), Type.Literal('full')], {
          default: 'normal',
          description:
            'normal: what was answered survives a killed process; full: a power loss too, at the price of one sync per batch',
        }),
      },
      { ...closed, default: {} },
    ),
  },
  closed,
)
export type Config = Static<typeof Config>

/** The settings of a gateway that was told nothing. */
export const defaultConfig = (): Config => fillIn(Config, {}) as Config

/**
 * The settings in a config file's text, with `${NAME}` taken from `env`.
 * Throws `invalid_request` with the path, what was expected and what was found.
 */
export function parseConfig(text: string, env: Record<string, string | undefined>): Config {
  const given = withVariables(parseYaml(text) ?? {}, env, '')
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalid('The config file: expected a mapping of settings')
  const config = fillIn(Config, given)
  const wrong = misfitOf(config, text)
  if (wrong) throw misfitting(wrong, config)
  return config as Config
}

function misfitting({ path, expected, found }: Misfit, config: unknown): GatewayError {
  const [holder, name] = placeOf(path, config)
  // What stands where a setting's name belongs, and is none, may be a secret that slipped.
  const isShown = expected !== 'no such field' || /^[a-z_]{1,40}$/i.test(name)
  const at = isShown ? path : holder
  return invalid(
    `${at || 'The config file'}: expected ${isShown ? expected : 'only fields that there are'}, found ${found}`,
    at,
  )
}

// A name may have dots in it.
function placeOf(path: string, config: unknown): [holder: string, name: string] {
  const names = path.split('.')
  let [at, depth] = [config, 0]
  for (; depth < names.length - 1; depth++) {
    const name = names[depth] ?? ''
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) break
    at = (at as Record<string, unknown>)[name]
  }
  return [names.slice(0, depth).join('.'), names.slice(depth).join('.')]
}

// A variable is text. Where only a number fits, and it reads as one, it is that number: `port: ${PORT}`.
function misfitOf(config: unknown, text: string): Misfit | undefined {
  const wrong = misfit(Config, config)
  if (!wrong || !text.includes('${') || !/^(number|integer)\b/.test(wrong.expected)) return wrong
  const path = wrong.path.split('.')
  const holder = path
    .slice(0, -1)
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], config) as Record<
    string,
    unknown
  >
  const name = path.at(-1) ?? ''
  const value = holder[name]
  if (typeof value !== 'string' || !/^\d{1,9}$/.test(value)) return wrong
  holder[name] = Number(value)
  return misfitOf(config, text)
}

function parseYaml(text: string): unknown {
  try {
    return Bun.YAML.parse(text)
  } catch (cause) {
    throw invalid(
      `The config file is not valid YAML: ${cause instanceof Error ? cause.message : 'it cannot be read'}`,
    )
  }
}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

// After parsing, so that no value of a variable can add settings.
function withVariables(
  value: unknown,
  env: Record<string, string | undefined>,
  path: string,
): unknown {
  if (typeof value === 'string') return substitute(value, env, path)
  if (Array.isArray(value)) return value.map((item, i) => withVariables(item, env, `${path}.${i}`))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      withVariables(item, env, path ? `${path}.${key}` : key),
    ]),
  )
}

function substitute(text: string, env: Record<string, string | undefined>, path: string): string {
  return text.replace(VARIABLE, (_, name: string) => {
    const value = env[name]
    if (value === undefined)
      throw invalid(`${path}: expected the environment variable ${name}, found nothing`, path)
    return value
  })
}

// Defaults of objects before those of their members, so that an omitted section is filled in whole.
function fillIn(
  schema: { properties?: Record<string, unknown>; default?: unknown },
  given: unknown,
): unknown {
  if (!schema.properties || typeof given !== 'object' || given === null || Array.isArray(given))
    return given
  const filled: Record<string, unknown> = { ...given }
  for (const [name, member] of Object.entries(
    schema.properties as Record<string, { default?: unknown }>,
  )) {
    const value = filled[name] ?? structuredClone(member.default)
    if (value !== undefined) filled[name] = fillIn(member, value)
  }
  return filled
}
