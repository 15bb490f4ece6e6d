import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf } from '../base/schema-builders.ts'

/** The search engines that the gateway can ask itself, in the order of their names. */
export const ENGINE_NAMES = [
  ...(['brave', 'exa', 'firecrawl', 'parallel', 'perplexity', 'searxng', 'tavily'] as const),
] as const
export type EngineName = (typeof ENGINE_NAMES)[number]

/** The form of an MCP server's label: it becomes a part of the names of functions. */
export const MCP_LABEL = '^[A-Za-z0-9_-]{1,64}$'

const Secret = (description: string) => Type.String({ format: 'visible-ascii', description })
const Enabled = (description: string) => Type.Boolean({ default: true, description })
const Count = (value: number, maximum: number, description: string) =>
  Type.Integer({ default: value, minimum: 1, maximum, description })
const Seconds = (value: number, description: string) =>
  Type.Number({ default: value, exclusiveMinimum: 0, maximum: 600, description })
// A use costs cents; more than ten dollars was entered in another unit.
const UsdEach = (unit: string) =>
  Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 10,
      description: `USD that one ${unit} costs its caller; nothing when omitted`,
    }),
  )

/** What an operator has agreed with a provider, in place of its public policy. */
export const AgreedDataPolicy = Type.Object(
  {
    training: Type.Optional(
      Type.Boolean({ description: 'Whether the provider trains on what it gets' }),
    ),
    retention_days: Type.Optional(
      Type.Integer({ minimum: 0, description: 'How long the provider keeps it' }),
    ),
  },
  { ...closed, description: 'What was agreed with the provider; its public policy when omitted' },
)

/**
 * Receivers that serve no models, by the names that lists of providers have for them: search engines
 * and services that read pages, MCP servers of the config and of callers, and the sites themselves.
 */
export const SERVICE_NAMES = [...ENGINE_NAMES, 'mcp', 'mcp_url', 'web'] as const

/** The names of all tools that the gateway runs itself. */
export const SERVER_TOOL_NAMES = [
  ...(['advisor', 'apply_patch', 'bash', 'datetime', 'files', 'fusion'] as const),
  ...(['image_generation', 'mcp', 'search_models', 'shell', 'subagent'] as const),
  ...(['tool_search', 'web_fetch', 'web_search'] as const),
] as const

/** The tools that workspaces may not use, by their slugs. */
export const DisabledToolsConfig = Type.Record(
  Type.String(),
  Type.Array(oneOf(...SERVER_TOOL_NAMES)),
  {
    default: {},
    description:
      'By the slug of a workspace: tools that its calls may not use, beside its own ' +
      'disabled_server_tools, which has no word for files and mcp',
  },
)

/** The settings of one search engine. */
export const EngineConfig = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'false: the engine is not asked' })),
    api_key: Type.Optional(Secret('The credential, for every engine but searxng')),
    base_url: Type.Optional(
      Type.String({
        format: 'url',
        description: 'Its address, if not the public one; searxng has no public one',
      }),
    ),
    usd_per_search: UsdEach('search'),
    data_policy: Type.Optional(AgreedDataPolicy),
    max_results: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 25,
        description: 'The most results of one search, if fewer than the engine allows',
      }),
    ),
    timeout_seconds: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 600,
        description: 'How long one search may take, if not web_search.timeout_seconds',
      }),
    ),
  },
  closed,
)
export type EngineConfig = Static<typeof EngineConfig>

const engines = Object.fromEntries(ENGINE_NAMES.map(name => [name, EngineConfig])) as Record<
  EngineName,
  typeof EngineConfig
>

/** The settings of the search tool. */
export const WebSearchConfig = Type.Object(
  {
    enabled: Enabled('Whether models may search the web through the gateway'),
    engines: Type.Partial(Type.Object(engines), {
      ...closed,
      default: {},
      description:
        'The engines that can be asked; auto asks the first one here when the model’s provider ' +
        'does not search itself',
    }),
    max_uses: Count(20, 1_000, 'The most searches of one call'),
    timeout_seconds: Seconds(30, 'How long one search may take'),
  },
  { ...closed, default: {} },
)

/** The services that read pages for the gateway, in the order of their names. */
export const FETCH_ENGINE_NAMES = ['exa', 'firecrawl', 'parallel'] as const
export type FetchEngineName = (typeof FETCH_ENGINE_NAMES)[number]

/** The settings of one service that reads pages. */
export const FetchEngineConfig = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'false: the service is not asked' })),
    api_key: Type.Optional(Secret('The credential')),
    base_url: Type.Optional(
      Type.String({ format: 'url', description: 'Its address, if not the public one' }),
    ),
    usd_per_fetch: UsdEach('page'),
    data_policy: Type.Optional(AgreedDataPolicy),
    timeout_seconds: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 600,
        description: 'How long one page may take, if not web_fetch.timeout_seconds',
      }),
    ),
  },
  closed,
)
export type FetchEngineConfig = Static<typeof FetchEngineConfig>

/** The settings of the tool that reads pages. */
export const WebFetchConfig = Type.Object(
  {
    enabled: Enabled('Whether models may read pages through the gateway'),
    engines: Type.Partial(
      Type.Object({
        exa: FetchEngineConfig,
        firecrawl: FetchEngineConfig,
        parallel: FetchEngineConfig,
      } satisfies Record<FetchEngineName, typeof FetchEngineConfig>),
      {
        ...closed,
        default: {},
        description:
          'The services that read pages for calls that name them; auto is the gateway itself',
      },
    ),
    robots: Type.Boolean({
      default: true,
      description:
        'Whether a site’s robots.txt decides which of its pages the gateway itself reads',
    }),
    max_uses: Count(20, 1_000, 'The most pages of one call'),
    max_mib: Count(5, 100, 'The largest page or file, in MiB after decompression'),
    max_content_tokens: Count(
      25_000,
      1_000_000,
      'The most tokens of a page that a model is given, at four bytes each',
    ),
    timeout_seconds: Seconds(30, 'How long one page may take, with its redirects'),
    usd_per_fetch: UsdEach('page'),
    data_policy: Type.Optional(AgreedDataPolicy),
  },
  { ...closed, default: {} },
)

/** The settings of the service that reads scanned PDFs. */
export const OcrConfig = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'false: the service is not asked' })),
    api_key: Type.Optional(Secret('The credential')),
    base_url: Type.Optional(
      Type.String({ format: 'url', description: 'Its address, if not the public one' }),
    ),
    model: Type.Optional(
      Type.String({ minLength: 1, description: 'mistral-ocr-latest when omitted' }),
    ),
    usd_per_page: UsdEach('page'),
    data_policy: Type.Optional(AgreedDataPolicy),
    timeout_seconds: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 600,
        description: 'How long one PDF may take; 120 when omitted',
      }),
    ),
  },
  { ...closed, description: 'Who reads PDFs for the engine mistral-ocr of file-parser' },
)
export type OcrConfig = Static<typeof OcrConfig>

/** The settings of the tool that calls MCP servers. */
export const McpConfig = Type.Object(
  {
    enabled: Enabled('Whether models may use MCP servers through the gateway'),
    server_urls: Type.Boolean({
      default: true,
      description: 'Whether callers may name servers by URL; false: only those of mcp_servers',
    }),
    max_uses: Count(30, 1_000, 'The most calls to one server in one call of a model'),
    max_tools: Count(128, 1_024, 'The most tools of one server'),
    max_result_kib: Count(256, 16_384, 'How much of a tool’s result a model is given, in KiB'),
    max_answer_mib: Count(
      4,
      64,
      'The largest answer of a server, in MiB after decompression; it has at most 500,000 values',
    ),
    list_seconds: Type.Number({
      default: 300,
      minimum: 0,
      maximum: 86_400,
      description: 'How long a server’s list of tools is remembered; 0: not at all',
    }),
    timeout_seconds: Seconds(60, 'How long one list or call of a tool may take'),
    approval_seconds: Seconds(300, 'How long the user of a client at /mcp may take to approve'),
  },
  { ...closed, default: {} },
)

/** How the gateway gets its tokens for an MCP server: as a client of its own (RFC 6749, 4.4). */
const McpOauth = Type.Object(
  {
    token_url: Type.String({
      format: 'url',
      description: 'Where the tokens are: the token endpoint of the authorization server',
    }),
    client_id: Type.String({ minLength: 1, format: 'visible-ascii', description: 'Who asks' }),
    client_secret: Secret('Sent with the id as `Authorization: Basic`'),
    scope: Type.Optional(Type.String({ minLength: 1, description: 'What the tokens are for' })),
    resource: Type.Optional(
      Type.String({ format: 'url', description: 'The server that the tokens are for (RFC 8707)' }),
    ),
  },
  {
    ...closed,
    description:
      'In place of authorization: tokens by client credentials, each used until shortly before its ' +
      'end, and replaced once the server refuses it',
  },
)
export type McpOauth = Static<typeof McpOauth>

/** The settings of one MCP server that callers name by its label. */
export const McpServerConfig = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'false: the server is not called' })),
    url: Type.Optional(
      Type.String({ format: 'url', description: 'Its address, for streamable HTTP' }),
    ),
    command: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description:
          'In place of url: a program and its arguments, which the gateway runs as its own user ' +
          'and speaks to over stdio. No shell reads them',
      }),
    ),
    env: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String(), {
        ...closed,
        description:
          'The environment of the program, beside HOME, LANG, PATH, TMPDIR and TZ: it has ' +
          'nothing else of the gateway’s',
      }),
    ),
    cwd: Type.Optional(
      Type.String({ minLength: 1, description: 'Where the program runs; / when omitted' }),
    ),
    authorization: Type.Optional(Secret('A token, sent as `Authorization: Bearer`')),
    oauth: Type.Optional(McpOauth),
    headers: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z0-9-]+$' }), Secret('The value'), {
        ...closed,
        description: 'Headers sent with every request; callers never see them',
      }),
    ),
    allowed_tools: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: 'The tools that may be used; all when omitted',
      }),
    ),
    require_approval: Type.Optional(
      Type.Union([...oneOf('always', 'never').anyOf], {
        description:
          'What holds where a call says nothing, always when omitted; written down, always holds ' +
          'whatever a call says',
      }),
    ),
    usd_per_call: UsdEach('call of a tool'),
    data_policy: Type.Optional(AgreedDataPolicy),
    timeout_seconds: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 600,
        description: 'How long one list or call of a tool may take, if not mcp.timeout_seconds',
      }),
    ),
  },
  closed,
)
export type McpServerConfig = Static<typeof McpServerConfig>

/** Returns what of a server’s settings cannot stand beside what is there, and why; null if all can. */
export function findServerContradiction(
  settings: McpServerConfig,
): { name: keyof McpServerConfig; message: string } | null {
  const { url, command } = settings
  if (url === undefined && command === undefined)
    return { name: 'url', message: 'expected an address, or a command in place of it' }
  const strange = command ? FIELDS_OF_HTTP : FIELDS_OF_PROGRAMS
  const name = strange.find(one => settings[one] !== undefined)
  if (name === undefined)
    return settings.oauth && settings.authorization !== undefined
      ? { name: 'oauth', message: 'expected none beside authorization' }
      : null
  return { name, message: `expected none beside ${command ? 'command' : 'url'}` }
}

const FIELDS_OF_HTTP = ['url', 'authorization', 'oauth', 'headers'] as const
const FIELDS_OF_PROGRAMS = ['env', 'cwd'] as const

/** The panels of fusion that a plugin may name (wire reference C.4). */
export const FUSION_PRESETS = ['general-high', 'general-budget', 'general-fast'] as const
export type FusionPreset = (typeof FUSION_PRESETS)[number]

const Slug = Type.String({ minLength: 1, maxLength: 1024 })
const Panel = (options: { default?: string[]; description: string }) =>
  Type.Array(Slug, { minItems: options.default ? 0 : 1, maxItems: 8, ...options })
const Judge = (description: string) => Type.Optional(Type.String({ minLength: 1, description }))
const Preset = Type.Optional(
  Type.Object(
    {
      analysis_models: Panel({ description: 'Its models, at most 8' }),
      model: Judge('Its judge; that of server_tools.fusion when omitted'),
    },
    closed,
  ),
)

/** The models that fusion asks. */
export const FusionConfig = Type.Object(
  {
    analysis_models: Panel({
      default: [],
      description: 'The models that fusion asks if a call names none, at most 8',
    }),
    model: Judge(
      'The model that compares their answers, and that gateway/fusion calls; when omitted, the ' +
        'model that asks, and the choice of gateway/auto',
    ),
    presets: Type.Object(
      { 'general-high': Preset, 'general-budget': Preset, 'general-fast': Preset },
      { ...closed, default: {}, description: 'The panels that a call may name' },
    ),
  },
  { ...closed, default: {} },
)

/** The model that draws for others. */
export const ImageGenerationConfig = Type.Object(
  {
    model: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'The model that draws if a call names none; openai/gpt-5-image when omitted',
      }),
    ),
  },
  { ...closed, default: {} },
)
