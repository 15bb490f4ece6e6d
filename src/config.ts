import { type Static, Type } from '@sinclair/typebox'
import { invalid } from './base/errors.ts'
import { describeIssue, findSchemaIssues, type SchemaIssue } from './base/schema.ts'
import { closed, oneOf } from './base/schema-builders.ts'
import { Auth, AwsConfig, ServiceAccountConfig } from './config/credentials.ts'
import { createConfigError, type FoundIssue } from './config/issues.ts'
import { MailConfig } from './config/mail.ts'
import { UsdPerMillionTokens } from './config/prices.ts'
import { Quirks } from './config/quirks.ts'
import { SignInConfig } from './config/sign-in.ts'
import { BucketConfig, PostgresConfig, ValkeyConfig } from './config/storage.ts'
import {
  AgreedDataPolicy,
  DisabledToolsConfig,
  FusionConfig,
  findServerContradiction,
  ImageGenerationConfig,
  MCP_LABEL,
  McpConfig,
  McpServerConfig,
  OcrConfig,
  WebFetchConfig,
  WebSearchConfig,
} from './config/tools.ts'
import {
  removeMissingSecrets,
  substituteVariables,
  type VariableSources,
} from './config/variables.ts'
import { IssuerConfig } from './config/workloads.ts'
import { ALL_PARAMETERS } from './language/parameters.ts'
import { FINISH_REASONS } from './language/part.ts'
import { INPUT_MODALITIES, OUTPUT_MODALITIES, QUANTIZATIONS } from './language/public-terms.data.ts'
import { SERVICE_TIERS } from './language/routing.ts'

/** Where the operator's own collector is, and what it is told. */
const OtlpConfig = Type.Object(
  {
    endpoint: Type.String({
      pattern: '^https?://[^\\s#]+$',
      maxLength: 2_048,
      description:
        'The address of an OpenTelemetry collector (OTLP/HTTP), without /v1/traces and /v1/metrics',
      title: 'an http or https URL',
    }),
    headers: Type.Record(
      Type.String({ pattern: "^[\\w!#$%&'*+.^`|~-]{1,200}$" }),
      Type.String({ pattern: '^[\\t\\x20-\\x7e]{0,8192}$' }),
      { default: {}, maxProperties: 50, description: 'Headers of each request, as for its key' },
    ),
    traces: Type.Boolean({ default: true, description: 'Whether it is told of every call' }),
    content: Type.Boolean({
      default: false,
      description: 'Whether traces have what was asked and answered',
    }),
    sampling_rate: Type.Number({
      default: 1,
      minimum: 0.0001,
      maximum: 1,
      description: 'The share of sessions that it is told of',
    }),
    metrics: Type.Boolean({ default: true, description: 'Whether it is sent the metrics' }),
    metrics_seconds: Type.Number({
      default: 60,
      minimum: 0.1,
      maximum: 86_400,
      description: 'The time from one export of metrics to the next',
    }),
  },
  closed,
)

const Text = (description: string) => Type.String({ minLength: 1, description })
const Hosts = (description: string) => Type.Array(Type.String({ minLength: 1 }), { description })
const AllowedHost = Type.String({
  pattern: '^(\\*|(\\*\\.)?[a-z0-9_-]+(\\.[a-z0-9_-]+)+)$',
  title: 'a host in small letters, *.host or *',
  maxLength: 253,
})
const Tokens = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }))
const Most = (description: string) =>
  Type.Integer({ minimum: 1, maximum: 1_000_000_000, description })
const Seconds = (value: number, description: string) =>
  Type.Number({ default: value, exclusiveMinimum: 0, maximum: 86_400, description })

// Bun takes four seconds more or less, and no more than 255.
const ConnectionSeconds = (value: number, description: string) =>
  Type.Number({ default: value, minimum: 1, maximum: 240, description })

const TreeLimit = (description: string, maximum: number) =>
  Type.Integer({ minimum: 1, maximum, description })
const TREE = {
  calls: TreeLimit('The calls of providers', 100_000),
  at_once: TreeLimit('How many of them at once', 1_000),
  depth: TreeLimit('How many uses of tools a call of a model may be inside', 16),
}
const TreeOverrides = (description: string) =>
  Type.Record(Type.String({ minLength: 1 }), Type.Partial(Type.Object(TREE, closed), closed), {
    default: {},
    description,
  })
const TreeConfig = Type.Object(
  {
    calls: Type.Integer({ ...TREE.calls, default: 200 }),
    at_once: Type.Integer({ ...TREE.at_once, default: 8 }),
    depth: Type.Integer({ ...TREE.depth, default: 3 }),
    workspaces: TreeOverrides('The same for one workspace, by its id'),
    keys: TreeOverrides('The same for one API key, by its hash; before those of its workspace'),
  },
  {
    ...closed,
    default: {},
    description: 'What one call may lead to, with all that is asked within it',
  },
)

/** The credential of a provider, and the address that may go with it. */
const CREDENTIAL = {
  base_url: Type.String({
    format: 'url',
    description: 'The address before the protocol’s own path',
  }),
  api_key: Type.String({ format: 'visible-ascii', description: 'The credential' }),
  aws: AwsConfig,
  service_account: ServiceAccountConfig,
  region: Type.String({
    format: 'slug',
    description: 'The region, if the provider’s address has one',
  }),
  project: Type.String({
    format: 'slug',
    description: 'The project, if the provider’s address has one',
  }),
}

const PooledCredentialConfig = Type.Partial(
  Type.Object({
    name: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$',
      title: 'letters, digits, _, . and -',
      description: 'Its name in logs and checks; its number when absent',
    }),
    weight: Type.Integer({
      minimum: 0,
      maximum: 1_000,
      description:
        'Its share of the calls beside the others’; 1 when absent. 0: used when no other is well',
    }),
    ...CREDENTIAL,
  }),
  closed,
)

/** The settings of one provider. */
export const ProviderConfig = Type.Partial(
  Type.Object({
    name: Text('The display name of the provider'),
    protocol: Text('The protocol: openai-chat, anthropic-messages, gemini, …'),
    protocols: Type.Array(
      Type.Union([
        Text('A protocol, at the provider’s base_url'),
        Type.Object(
          {
            protocol: Text('A protocol'),
            base_url: Type.String({ format: 'url', description: 'Its address, if it has its own' }),
          },
          closed,
        ),
      ]),
      {
        minItems: 1,
        maxItems: 8,
        description:
          'In the place of protocol, where it speaks several: a call leaves in the protocol of its ' +
          'own dialect where that is listed, and in the first otherwise',
      },
    ),
    ...CREDENTIAL,
    credentials: Type.Array(PooledCredentialConfig, {
      minItems: 1,
      maxItems: 100,
      description:
        'Several credentials in the place of one: each call is sent with one of them, by weight and ' +
        'by what the provider says is left of its limits. One that is refused or limited rests alone',
    }),
    auth: Auth,
    headers: Type.Record(Type.String(), Type.String({ format: 'visible-ascii' }), {
      description: 'Headers sent with every request',
    }),
    fetches_urls: Type.Boolean({
      description:
        'Sends callers’ URLs of pictures and files on to it, private and file: ones too, instead ' +
        'of fetching them; true for the hosted providers that are known by name',
    }),
    on_abort: Type.Union([Type.Literal('cancel'), Type.Literal('drain')], {
      description:
        'When a client leaves. cancel: the connection is closed, since the provider stops and ' +
        'charges no more; drain: the answer is read on for its count, since the provider charges ' +
        'for all of it. drain for known providers that do not stop, cancel for all others',
    }),
    finish_reasons: Type.Record(Type.String(), oneOf(...FINISH_REASONS), {
      description:
        'Why an answer ended, by the provider’s own word for it, where the gateway does not know ' +
        'that word, or reads it in another way: it counts a word that it does not know as an error',
    }),
    quirks: Type.Partial(Quirks, {
      ...closed,
      description: 'How it differs from others that speak OpenAI’s chat',
    }),
  }),
  closed,
)
export type ProviderConfig = Static<typeof ProviderConfig>

const EndpointConfig = Type.Object(
  {
    provider: Text('A name under providers, or a built-in one'),
    model: Text('The provider’s own name for the model'),
    protocol: Type.Optional(Text('The protocol of this model, if it is not the provider’s')),
    usd_per_million_tokens: Type.Optional(UsdPerMillionTokens),
    context_length: Tokens('The tokens of input and output together, if not the model’s'),
    max_completion_tokens: Tokens('The most tokens of an answer'),
    supported_parameters: Type.Optional(
      Type.Array(oneOf(...ALL_PARAMETERS), { description: 'Omitted: all' }),
    ),
    data_policy: Type.Optional(AgreedDataPolicy),
    region: Type.Optional(
      Type.String({ description: 'Where the endpoint is: GET /models?region=… finds it' }),
    ),
    quantization: Type.Optional(
      Type.Union([...oneOf(...QUANTIZATIONS).anyOf], {
        description: 'How its weights are rounded',
      }),
    ),
    service_tier: Type.Optional(
      Type.Union([...oneOf(...SERVICE_TIERS).anyOf], {
        description:
          'The tier that it asks its provider for, at prices of its own: a second endpoint beside ' +
          'the usual one, for calls that want it',
      }),
    ),
  },
  closed,
)
export type EndpointConfig = Static<typeof EndpointConfig>

const ModelConfig = Type.Object(
  {
    id: Type.String({
      pattern: '^[^/\\s*]+/([^/\\s*]+|\\*)$',
      title: '<author>/<slug> or <author>/*',
      description:
        '<author>/<slug>; <author>/* is every name of the author that has no entry and is not in ' +
        'the catalogue: what the star stands for takes the place of the star in the endpoints’ model',
    }),
    name: Type.Optional(Text('The display name of the model')),
    description: Type.Optional(Type.String({ description: 'What people read about the model' })),
    context_length: Tokens('The tokens of input and output together'),
    input_modalities: Type.Optional(
      Type.Array(oneOf(...INPUT_MODALITIES), { minItems: 1, description: 'What it reads' }),
    ),
    output_modalities: Type.Optional(
      Type.Array(oneOf(...OUTPUT_MODALITIES), { minItems: 1, description: 'What it writes' }),
    ),
    distillable: Type.Optional(
      Type.Boolean({ description: 'Whether its author allows training other models on its texts' }),
    ),
    endpoints: Type.Array(EndpointConfig, { minItems: 1 }),
  },
  closed,
)
export type ModelConfig = Static<typeof ModelConfig>

const PluginEntries = Type.Array(
  Type.Object({ id: Text('The plugin') }, { additionalProperties: true }),
  {
    maxItems: 32,
    description: 'Entries as in the plugins of a call, which its own entries replace',
  },
)
const LockedPlugins = Type.Array(Type.String({ minLength: 1 }), {
  maxItems: 32,
  description: 'The plugins among them whose entries calls cannot replace or switch off',
})

/** The plugins of calls that do not name them. */
export const PluginDefaults = Type.Object(
  { defaults: Type.Optional(PluginEntries), prevent_overrides: Type.Optional(LockedPlugins) },
  closed,
)
export type PluginDefaults = Static<typeof PluginDefaults>

/** A host as a URL has it, with or without a port: neither a range nor a URL would match any. */
const PrivateHost = Type.String({
  pattern: '^(?:\\[[0-9A-Fa-f:.]+\\]|[^\\s/:@\\[\\]]+)(?::[0-9]{1,5})?$',
  title: 'a host, or host:port',
})

/** All settings: their names, defaults and meanings. */
export const Config = Type.Object(
  {
    service_name: Type.String({
      default: 'gateway',
      pattern: '^[a-z][a-z0-9_]*$',
      title: 'lower-case letters, digits and _, a letter first',
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
        idle_seconds: ConnectionSeconds(120, 'Silence before a connection is closed'),
        cors: Type.Array(
          Type.Union([Type.Literal('*'), Type.String({ format: 'origin', maxLength: 300 })]),
          {
            default: [],
            description:
              'The origins whose pages may call the API from a browser: https://app.example; * for ' +
              'all; none when omitted',
          },
        ),
        console: Type.Boolean({
          default: true,
          description: 'Whether /console has a page for operators and members',
        }),
        console_host: Type.Optional(
          Type.String({
            format: 'host[:port]',
            maxLength: 260,
            description:
              'Another host than that of site_url for /console and all sign-in, as browsers send it in ' +
              'Host, with its port. /console and its sessions are there only, and pages of sign-in ' +
              'lead there. A proxy has to pass Host on',
          }),
        ),
        list_all_models: Type.Boolean({
          default: false,
          description:
            'Whether GET /models lists the whole catalogue, as the public service does, and not ' +
            'only what can be called here',
        }),
        metrics_address: Type.Optional(
          Type.String({
            format: 'host:port',
            description: 'Another address for /metrics, which then answers there only',
          }),
        ),
        metrics_key: Type.Optional(
          Type.Boolean({
            description:
              'Whether /metrics requires a management key; when omitted it does, unless the API ' +
              'listens on loopback or metrics_address is set',
          }),
        ),
        trusted_proxies: Type.Array(Type.String({ format: 'address-range' }), {
          default: [],
          description:
            'The proxies whose Host header decides the region, and whose X-Forwarded-For says who ' +
            'asks: addresses, or ranges as 10.0.0.0/8',
        }),
      },
      { ...closed, default: {} },
    ),
    regions: Type.Partial(
      Type.Object({
        europe: Hosts('The hosts whose calls stay in Europe'),
        us: Hosts('The hosts whose calls stay in the United States'),
      }),
      {
        ...closed,
        default: {},
        description:
          'Host header → ingress region, of calls through server.trusted_proxies; anything else is ' +
          'global',
      },
    ),
    default_model: Type.String({
      default: 'sandbox/echo',
      minLength: 1,
      description: 'The model of a call that names none',
    }),
    providers: Type.Record(Type.String(), ProviderConfig, {
      default: {},
      description: 'The providers that can be called',
    }),
    providers_from_environment: Type.Boolean({
      default: true,
      description:
        'Whether variables such as OPENAI_API_KEY configure providers that are not named here',
    }),
    models: Type.Array(ModelConfig, {
      default: [],
      description: 'Added to the built-in catalogue, or overriding its model with the same id',
    }),
    unknown_models: Type.Optional(
      Type.Union([Type.Literal('pass'), Type.Literal('refuse')], {
        description:
          'What happens to a name that begins with a configured provider, or the author whose ' +
          'models it serves, and is not in the catalogue. pass: that provider is asked for it, at an ' +
          'unknown price, and a key with a limit of money is refused; when omitted, at providers ' +
          'that are known by name',
      }),
    ),
    catalog: Type.Object(
      {
        public_keys: Type.Array(
          Type.String({
            pattern: '^MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=$',
            title: 'a public ed25519 key, as the line that openssl pkey -pubout writes',
          }),
          {
            default: [],
            maxItems: 16,
            description:
              'The keys of those whose catalogues gateway models update installs; none when omitted',
          },
        ),
      },
      { ...closed, default: {} },
    ),
    routing: Type.Object(
      {
        choice: Type.Union([Type.Literal('weighted'), Type.Literal('listed')], {
          default: 'weighted',
          description:
            'Which endpoint of a model is tried first: a random one, where cheaper ones are ' +
            'likelier, or the one that is listed first',
        }),
        failures: Type.Integer({
          default: 5,
          minimum: 0,
          maximum: 1_000_000,
          description:
            'An endpoint cools down after this many failures in a row, or when half of twice as ' +
            'many calls fail within 30 seconds; 0: never',
        }),
        hedge: Type.Union([Type.Boolean(), Type.Literal('never')], {
          default: false,
          description:
            'Starts a second endpoint for a streamed call that is slower to its first part than ' +
            '95 of 100 calls, unless provider.hedge says otherwise; never: ignores provider.hedge',
        }),
        pause_seconds: Seconds(
          5,
          'How long it cools down; doubled at each further failure, up to five minutes',
        ),
      },
      { ...closed, default: {} },
    ),
    plugins: Type.Object(
      {
        defaults: Type.Optional(PluginEntries),
        prevent_overrides: Type.Optional(LockedPlugins),
        workspaces: Type.Record(Type.String(), PluginDefaults, {
          default: {},
          description: 'By the slug of a workspace: its own defaults, instead of those above',
        }),
        coding_scores: Type.Record(Type.String(), Type.Number({ minimum: 0, maximum: 1 }), {
          default: {},
          description:
            'How well models write code, from 0 to 1, by model: pareto-code picks from these alone',
        }),
        moderation: Type.Optional(
          Type.Object(
            {
              provider: Text('A provider that speaks OpenAI’s /moderations'),
              model: Text('The provider’s own name for the model that judges'),
              data_policy: Type.Optional(AgreedDataPolicy),
            },
            { ...closed, description: 'Who judges calls with the plugin moderation' },
          ),
        ),
        read_documents_mib: Type.Integer({
          default: 32,
          minimum: 0,
          maximum: 1_000_000,
          description:
            'What the texts of documents take in memory, in MiB, so that a conversation has each ' +
            'read once; 0: none is kept',
        }),
        mistral_ocr: Type.Optional(OcrConfig),
      },
      { ...closed, default: {} },
    ),
    web_search: WebSearchConfig,
    web_fetch: WebFetchConfig,
    mcp: McpConfig,
    mcp_servers: Type.Record(
      Type.String({ pattern: MCP_LABEL, title: 'letters, digits, _ and -, at most 64' }),
      McpServerConfig,
      {
        ...closed,
        default: {},
        description: 'MCP servers that callers may use by their label, without a URL',
      },
    ),
    security: Type.Object(
      {
        allow_private_urls: Type.Array(PrivateHost, {
          default: [],
          description:
            'Private hosts that a caller’s URL may name, at ports 80 and 443: 10.0.0.5; with its ' +
            'port, a host at that port: 10.0.0.5:9000',
        }),
        allow_url_ports: Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
          default: [],
          description: 'Ports that a caller’s URL may name, beside 80 and 443',
        }),
      },
      { ...closed, default: {} },
    ),
    limits: Type.Object(
      {
        strict: Type.Boolean({
          default: true,
          description:
            'Lowers max_tokens to what a limit can pay for; false refuses a call that may cost more',
        }),
        wait_seconds: Type.Number({
          default: 10,
          minimum: 0,
          maximum: 600,
          description:
            'How long a call waits for money that running calls hold of its limits before it gets 402',
        }),
        max_tokens: Type.Integer({
          default: 16_384,
          minimum: 16,
          maximum: 10_000_000,
          description:
            'The output tokens to reserve, and to send under a limit, where neither the caller ' +
            'nor the endpoint bounds them',
        }),
        credits: Type.Boolean({
          default: false,
          description:
            'Spends no more through the gateway’s own credentials than was paid in (gateway ' +
            'credits add)',
        }),
        presets: Type.Integer({
          default: 1_000,
          minimum: 1,
          maximum: 1_000_000,
          description: 'The presets of one workspace',
        }),
        presets_mib: Type.Integer({
          default: 64,
          minimum: 1,
          maximum: 1_000_000,
          description: 'What all versions of a workspace’s presets take in storage, in MiB',
        }),
        read_on_kib: Type.Integer({
          default: 4_096,
          minimum: 0,
          maximum: 65_536,
          description:
            'How much of an answer is read on after its client has left, in KiB; 0: nothing',
        }),
        answer_mib: Type.Integer({
          default: 64,
          minimum: 1,
          maximum: 1_024,
          description:
            'The largest whole answer of a provider, and the largest event of a streamed one that ' +
            'may bring pictures, in MiB after decompression; a larger one is a failure of the ' +
            'provider',
        }),
        reader_bytes_per_second: Type.Integer({
          default: 1_024,
          minimum: 0,
          maximum: 1_000_000_000,
          description:
            'How fast a client has to read a streamed answer that waits for it, on average over ' +
            'timeouts.reader_seconds; 0: as slowly as it likes',
        }),
        memory: Type.Optional(
          Type.Integer({
            minimum: 16,
            maximum: 1_000_000,
            description:
              'What large bodies and answers of running calls, and their copies, take together, in ' +
              'MiB; more calls are refused with 503. A quarter of the machine’s memory when omitted, ' +
              'and 512 at most',
          }),
        ),
        in_flight: Type.Optional(
          Most(
            'The calls of all keys at once; more are refused with 503, and one key alone takes nine ' +
              'tenths. When omitted, as many as half the file descriptors, and one for each 128 KiB ' +
              'of limits.memory',
          ),
        ),
        requests_per_minute: Type.Optional(Most('The calls per minute of one API key')),
        management_per_minute: Type.Integer({
          default: 6_000,
          minimum: 1,
          maximum: 1_000_000_000,
          description: 'The requests per minute of one management key that manage or read reports',
        }),
        concurrent_requests: Type.Optional(Most('The concurrent calls of one API key')),
        tree: TreeConfig,
        free_models: Type.Union(
          [
            Type.Literal(false),
            Type.Object(
              {
                requests_per_minute: Type.Optional(
                  Most('The calls per minute to :free models, of all keys together'),
                ),
                requests_per_day: Type.Optional(
                  Most('The same per day, from midnight to midnight UTC'),
                ),
              },
              closed,
            ),
          ],
          {
            default: false,
            description:
              'How often :free models may be called; the public service allows 20 calls per ' +
              'minute and 1000 per day',
          },
        ),
      },
      { ...closed, default: {} },
    ),
    timeouts: Type.Object(
      {
        connect_seconds: Seconds(5, 'Until a provider accepts the connection'),
        first_byte_seconds: Seconds(600, 'Silence before a whole answer begins'),
        first_byte_stream_seconds: Seconds(120, 'Silence before a streamed answer begins'),
        idle_seconds: Seconds(90, 'Silence within a streamed answer'),
        total_seconds: Seconds(1800, 'The longest time for one answer'),
        keep_alive_seconds: Seconds(10, 'Between two comments in a waiting stream'),
        body_seconds: Seconds(
          30,
          'Until a request’s body has arrived; each KiB of it adds a second, up to ten times this, ' +
            'or 120 times for a file',
        ),
        read_on_seconds: Type.Number({
          default: 10,
          minimum: 0,
          maximum: 600,
          description:
            'How long an answer is read on after its client has left, from providers with ' +
            'on_abort: drain; 0: never. What is not read is charged as estimated',
        }),
        video_seconds: Seconds(
          3_600,
          'The longest time for one video: a job that takes longer is given up and costs nothing',
        ),
        query_seconds: Seconds(10, 'The longest time for a query of analytics'),
        reader_seconds: ConnectionSeconds(
          60,
          'Until a client that takes nothing of a streamed answer is cut',
        ),
      },
      { ...closed, default: {} },
    ),
    files: Type.Object(
      {
        quota_mib: Type.Integer({
          default: 10_240,
          minimum: 0,
          maximum: 1_000_000_000,
          description: 'What the files of one workspace take on disk, in MiB, by blocks of 4 KiB',
        }),
        quota_files: Type.Integer({
          default: 100_000,
          minimum: 0,
          maximum: 1_000_000_000,
          description: 'The files of one workspace: each takes an entry and a block of a disk',
        }),
        requests_per_minute: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 1_000_000_000,
            description:
              'The requests per minute of one API key to /files and /containers; unlimited if omitted',
          }),
        ),
      },
      { ...closed, default: {} },
    ),
    doors: Type.Object(
      {
        gemini: Type.Object(
          {
            query_key: Type.Boolean({
              default: false,
              description:
                'Whether clients of the Gemini API may send their key in the query, as `?key=`. Proxies ' +
                'on the way may log it',
            }),
          },
          { ...closed, default: {} },
        ),
      },
      { ...closed, default: {} },
    ),
    responses: Type.Object(
      {
        store: Type.Boolean({
          default: false,
          description:
            'Whether responses are stored, so that clients go on from them by their ids, poll them ' +
            'in the background and delete them; false: /responses stores nothing',
        }),
        retention_days: Type.Integer({
          default: 30,
          minimum: 1,
          maximum: 36_500,
          description: 'Days for which stored responses are kept',
        }),
        quota_mib: Type.Integer({
          default: 1_024,
          minimum: 0,
          maximum: 1_000_000_000,
          description:
            'What the stored responses of one workspace take, in MiB: beyond that, calls that ' +
            'would store one are refused. One that is being made is kept in any case',
        }),
      },
      { ...closed, default: {} },
    ),
    batches: Type.Object(
      {
        enabled: Type.Boolean({
          default: true,
          description: 'Whether files of requests are taken and worked on',
        }),
        concurrency: Type.Integer({
          default: 4,
          minimum: 1,
          maximum: 1_000,
          description: 'The lines of all batches that run at once',
        }),
        pause_at: Type.Integer({
          default: 64,
          minimum: 1,
          maximum: 1_000_000,
          description: 'No line begins while so many calls of clients run',
        }),
        max_requests: Type.Integer({
          default: 100_000,
          minimum: 1,
          maximum: 1_000_000,
          description: 'The most lines of one batch',
        }),
      },
      { ...closed, default: {} },
    ),
    datasets: Type.Object(
      {
        enabled: Type.Boolean({
          default: true,
          description: 'Whether keys may read /datasets: false answers 404',
        }),
        minimum_workspaces: Type.Integer({
          default: 5,
          minimum: 1,
          maximum: 1_000_000,
          description:
            'The workspaces that a row of /datasets is of, at least; of fewer, a key reads what is ' +
            'its own workspace’s',
        }),
        minimum_sessions: Type.Integer({
          default: 5,
          minimum: 1,
          maximum: 1_000_000,
          description: 'The sessions that a median of /datasets/session-cost is of, at least',
        }),
        requests_per_minute: Type.Integer({
          default: 30,
          minimum: 1,
          maximum: 1_000_000_000,
          description: 'The readings of datasets per minute of one API key',
        }),
        requests_per_day: Type.Integer({
          default: 500,
          minimum: 1,
          maximum: 1_000_000_000,
          description: 'The same per day of all keys together, from midnight to midnight UTC',
        }),
      },
      { ...closed, default: {} },
    ),
    mail: Type.Optional(MailConfig),
    telemetry: Type.Object(
      {
        queue_mib: Type.Integer({
          default: 256,
          minimum: 1,
          maximum: 1_000_000,
          description:
            'What waits for all destinations, in MiB; beyond it the oldest is dropped and counted',
        }),
        queue_rows: Type.Integer({
          default: 1_000_000,
          minimum: 1,
          maximum: 100_000_000,
          description: 'The same, in calls; a call that waits for two destinations counts twice',
        }),
        otlp: Type.Optional(OtlpConfig),
        propagate_traces: Type.Boolean({
          default: false,
          description:
            'Whether providers are sent `traceparent` (W3C), so that their spans are in our traces',
        }),
      },
      { ...closed, default: {} },
    ),
    sandbox: Type.Object(
      {
        kind: Type.Union(
          [Type.Literal(false), Type.Literal('bubblewrap'), Type.Literal('just-bash')],
          {
            default: false,
            description:
              'What runs the commands of models: bubblewrap has Linux namespaces; just-bash works ' +
              'everywhere, with fewer programs and a weaker wall; false: nothing runs',
          },
        ),
        home_mib: Type.Integer({
          default: 256,
          minimum: 1,
          maximum: 16_384,
          description:
            'What the home of one container takes, in MiB. It is in memory while it runs',
        }),
        quota_mib: Type.Integer({
          default: 10_240,
          minimum: 0,
          maximum: 1_000_000_000,
          description:
            'What the homes of all containers of one workspace take on disk, in MiB, by blocks of 4 KiB',
        }),
        quota_files: Type.Integer({
          default: 100_000,
          minimum: 0,
          maximum: 1_000_000_000,
          description: 'The files of all containers of one workspace',
        }),
        memory_mib: Type.Integer({
          default: 1_024,
          minimum: 64,
          maximum: 1_048_576,
          description:
            'What one process of a command may map, in MiB; with control groups also what all ' +
            'processes of a container take, beside its home',
        }),
        processes: Type.Integer({
          default: 64,
          minimum: 4,
          maximum: 4_096,
          description: 'The processes of one command at once',
        }),
        cpus: Type.Number({
          default: 1,
          minimum: 0.01,
          maximum: 1_024,
          description:
            'The processors that one container takes, where bubblewrap has control groups',
        }),
        running: Type.Integer({
          default: 16,
          minimum: 1,
          maximum: 10_000,
          description: 'The containers that run at once',
        }),
        ready: Type.Integer({
          default: 2,
          minimum: 0,
          maximum: 100,
          description:
            'The sandboxes that a server starts before a container needs them, beside those that run',
        }),
        timeout_seconds: Type.Number({
          default: 300,
          minimum: 0.01,
          maximum: 300,
          description: 'The longest time of one command; a call that asks for more gets this',
        }),
        allowed_hosts: Type.Array(AllowedHost, {
          default: ['*'],
          maxItems: 1_000,
          description:
            'The hosts that callers may let commands ask (network_policy): names, *.name, or * for ' +
            'every public one; []: none',
        }),
        idle_seconds: Type.Number({
          default: 900,
          minimum: 0.01,
          maximum: 14_400,
          description: 'How long a container keeps running without a command',
        }),
      },
      { ...closed, default: {} },
    ),
    server_tools: Type.Object(
      {
        timeout_seconds: Seconds(60, 'The longest time for one use of a tool of the gateway'),
        max_result_characters: Type.Integer({
          default: 200_000,
          minimum: 100,
          maximum: 10_000_000,
          description: 'The most characters of a result; the model is told that the rest is cut',
        }),
        disabled_tools: DisabledToolsConfig,
        fusion: FusionConfig,
        image_generation: ImageGenerationConfig,
      },
      { ...closed, default: {} },
    ),
    idempotency: Type.Object(
      {
        max_mib: Type.Integer({
          default: 64,
          minimum: 0,
          maximum: 1_000_000,
          description:
            'What answers to calls with an Idempotency-Key take in memory, in MiB; 0: calls may not have one',
        }),
      },
      { ...closed, default: {} },
    ),
    response_cache: Type.Object(
      {
        max_mib: Type.Integer({
          default: 64,
          minimum: 0,
          maximum: 1_000_000,
          description: 'What kept answers take in memory, in MiB; 0: callers cannot keep answers',
        }),
      },
      { ...closed, default: {} },
    ),
    oauth: Type.Object(
      {
        enabled: Type.Boolean({
          default: true,
          description:
            'Whether apps and workloads may get keys and tokens: by consent, by a key, by an issuer',
        }),
        requests_per_minute: Type.Integer({
          default: 600,
          minimum: 1,
          maximum: 1_000_000,
          description:
            'How often one address may exchange, sign in or look at pages of consent in a full ' +
            'minute: an IPv4 address, or 64 bits of an IPv6 one. Beyond it: 429',
        }),
        sign_in: Type.Optional(SignInConfig),
        issuers: Type.Record(Type.String({ format: 'slug', maxLength: 100 }), IssuerConfig, {
          ...closed,
          default: {},
          description:
            'Whose workloads get short-lived tokens (CI systems, Kubernetes), by the ' +
            'federation_policy_id that they send',
        }),
      },
      { ...closed, default: {} },
    ),
    retention: Type.Object(
      {
        generations_days: Type.Integer({
          default: 0,
          minimum: 0,
          maximum: 36_500,
          description:
            'Full days for which finished calls are kept; then only their sums are. 0: for ever',
        }),
        content_days: Type.Integer({
          default: 30,
          minimum: 1,
          maximum: 36_500,
          description: 'Days for which what was asked and answered is kept, where it is kept',
        }),
        content_mib: Type.Integer({
          default: 1_024,
          minimum: 0,
          maximum: 1_000_000_000,
          description:
            'What all of it takes, in MiB: the oldest is removed beyond that. 0: none is kept',
        }),
        refusals_days: Type.Integer({
          default: 0,
          minimum: 0,
          maximum: 36_500,
          description: 'Full days for which refused calls are kept; 0: `storage.refusals` decides',
        }),
        batches_days: Type.Integer({
          default: 0,
          minimum: 0,
          maximum: 36_500,
          description: 'Full days for which batches that have ended are kept; 0: for ever',
        }),
      },
      { ...closed, default: {} },
    ),
    storage: Type.Object(
      {
        durability: Type.Union(
          [Type.Literal('normal'), Type.Literal('full'), Type.Literal('shared')],
          {
            default: 'normal',
            description:
              'normal: answered calls survive a killed process; full: they survive a power loss ' +
              'too, at the cost of one sync per batch; shared: with storage.postgres, and what is meant ' +
              'there: an answer ends when Postgres has its record, and its synchronous_commit decides',
          },
        ),
        refusals: Type.Integer({
          default: 10_000,
          minimum: 0,
          maximum: 1_000_000,
          description: 'How many refused calls are kept for `gateway logs`; 0: none are noted',
        }),
        files: Type.Union([Type.Literal('disk'), Type.Literal('s3')], {
          default: 'disk',
          description:
            'Where the bytes of files and of containers’ homes are: disk: in the data directory; ' +
            's3: in the bucket storage.s3',
        }),
        s3: Type.Optional(BucketConfig),
        postgres: Type.Optional(PostgresConfig),
        valkey: Type.Optional(ValkeyConfig),
      },
      { ...closed, default: {} },
    ),
  },
  closed,
)
export type Config = Static<typeof Config>

/** Returns the settings of a gateway without a config file. */
export const createDefaultConfig = (): Config => fillDefaults(Config, {}) as Config

/** How a config is read, in addition to its variables. */
export interface ConfigReading extends Pick<VariableSources, 'readSecretFile'> {
  /** Whether providers may lack their secrets, as nothing is sent to them. */
  withoutSecrets?: boolean
  /**
   * Lists what else is wrong in a config that has lost its wrong settings, so that one reading tells
   * all. `wrong` has the names on the way to each of those.
   */
  listFurtherIssues?: (config: Config, wrong: string[][]) => FoundIssue[]
}

/**
 * Parses a config file's text, with `${NAME}` taken from `env` and `${file:PATH}` from a file.
 * Throws `invalid_request` with all that is wrong, one line for each: the path, what was expected
 * and what was found. The error's `metadata.issues` has the same with the place in the file.
 */
export function parseConfig(
  text: string,
  env: VariableSources['env'],
  { readSecretFile, withoutSecrets = false, listFurtherIssues = () => [] }: ConfigReading = {},
): Config {
  const sources = { env, readSecretFile }
  const parsed = parseYaml(text) ?? {}
  const { replaced: settings, missing } = substituteVariables(
    withoutSecrets ? removeMissingSecrets(parsed, sources) : parsed,
    sources,
  )
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    throw invalid('The config file: expected a mapping of settings')
  const config = fillDefaults(Config, settings)
  // What a variable without a value would be is not known, so nothing else is said of it.
  const issues = findIssues(config, text)
    .map(issue => describeSetting(issue, config))
    .filter(({ names }) => !missing.some(variable => isWithin(names, variable.names)))
  const wrong = [...missing, ...issues].map(({ names }) => names)
  const right = removeWrongSettings(config as Config, wrong)
  const found = [...missing, ...issues, ...listContradictions(right, wrong)]
  if (found.length > 0) throw createConfigError([...found, ...listFurtherIssues(right, wrong)])
  return right
}

/**
 * Returns a config without its wrong settings. A model with one becomes a model without endpoints,
 * so that the others keep their places; other settings get their default, where they have one.
 */
function removeWrongSettings(config: Config, wrong: string[][]): Config {
  if (wrong.length === 0) return config
  const defaults: Record<string, unknown> = createDefaultConfig()
  const right: Record<string, unknown> = { ...config }
  for (const [section = '', name] of wrong)
    right[section] =
      name === undefined
        ? defaults[section]
        : replaceMember(right[section], name, getMember(defaults[section], name))
  return right as Config
}

const getMember = (section: unknown, name: string): unknown =>
  (section as Record<string, unknown> | undefined)?.[name]

function replaceMember(section: unknown, name: string, value: unknown): unknown {
  if (Array.isArray(section))
    return section.with(Number(name), { id: `models.${name}`, endpoints: [] })
  const { [name]: _, ...others } = section as Record<string, unknown>
  return value === undefined ? others : { ...others, [name]: value }
}

const isWithin = (names: string[], outer: string[]): boolean =>
  outer.every((name, i) => names[i] === name)

/** A setting that is right alone, and wrong beside another. */
interface Contradiction extends FoundIssue {
  beside: string[]
}

// Beside a setting that is wrong itself, nothing is known of the other.
const listContradictions = (config: Config, wrong: string[][]): FoundIssue[] =>
  findContradictions(config).filter(({ names, beside }) =>
    [names, beside].every(one => !wrong.some(path => isWithin(path, one) || isWithin(one, path))),
  )

function findContradictions(config: Config): Contradiction[] {
  const { keep_alive_seconds, reader_seconds } = config.timeouts
  const hosts = Object.values(config.regions).flat()
  const found = listStorageContradictions(config)
  // A stream that writes nothing for so long looks like one whose reader takes nothing.
  if (keep_alive_seconds >= reader_seconds)
    found.push({
      names: ['timeouts', 'keep_alive_seconds'],
      beside: ['timeouts', 'reader_seconds'],
      message:
        'timeouts.keep_alive_seconds: expected less than timeouts.reader_seconds ' +
        `(${reader_seconds}), found ${keep_alive_seconds}`,
    })
  // An operator who names regions believes that they hold.
  if (hosts.length > 0 && config.server.trusted_proxies.length === 0)
    found.push({
      names: ['regions'],
      beside: ['server', 'trusted_proxies'],
      message:
        'regions: expected server.trusted_proxies to name the proxies that set Host, found none',
    })
  found.push(...listConsoleContradictions(config.server))
  for (const [name, { limit, limit_reset }] of Object.entries(config.oauth.issuers)) {
    if (limit_reset === undefined || limit !== undefined) continue
    const names = ['oauth', 'issuers', name, 'limit_reset']
    const message = `${names.join('.')}: expected a limit beside it`
    found.push({ names, beside: ['oauth', 'issuers', name, 'limit'], message })
  }
  for (const [label, settings] of Object.entries(config.mcp_servers)) {
    const contradiction = findServerContradiction(settings)
    if (!contradiction) continue
    const beside = ['mcp_servers', label]
    const names = [...beside, contradiction.name]
    found.push({ names, beside, message: `${names.join('.')}: ${contradiction.message}` })
  }
  return found
}

/** Returns where users find a gateway that listens on its configured port. */
export const getSiteUrl = ({ site_url, host, port }: Config['server']): string =>
  site_url ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Returns where people sign in and find the console, without a slash at its end. */
export function getConsoleUrl({
  config: { server },
  instance: { siteUrl },
}: {
  config: Config
  instance: { siteUrl: string }
}): string {
  if (server.console_host === undefined) return siteUrl.replace(/\/$/, '')
  return new URL(`${new URL(siteUrl).protocol}//${server.console_host}`).origin
}

function listConsoleContradictions(server: Config['server']): Contradiction[] {
  const { console_host } = server
  if (console_host === undefined) return []
  const names = ['server', 'console_host']
  if (!server.console) {
    const message = 'server.console_host: expected server.console beside it, found false'
    return [{ names, beside: ['server', 'console'], message }]
  }
  const site = URL.parse(getSiteUrl(server))
  if (site === null || new URL(`${site.protocol}//${console_host}`).host !== site.host) return []
  const message = `server.console_host: expected another host than the API’s, found ${site.host}`
  return [{ names, beside: ['server', 'site_url'], message }]
}

/** The largest object that S3 takes in one request, in MiB. */
const LARGEST_OBJECT_MIB = 5_120

function listStorageContradictions({ storage, sandbox }: Config): Contradiction[] {
  const { files, s3, durability, postgres, valkey } = storage
  const beside = ['storage']
  const say = (names: string[], text: string) => ({
    ...{ names, beside },
    message: `${names.join('.')}: ${text}`,
  })
  if (valkey && !postgres)
    return [
      say(['storage', 'valkey'], 'expected storage.postgres beside it: one server needs none'),
    ]
  if (postgres && durability === 'full')
    return [
      say(
        ['storage', 'durability'],
        'expected shared, as synchronous_commit decides in storage.postgres, found full',
      ),
    ]
  if (!postgres && durability === 'shared')
    return [
      say(
        ['storage', 'durability'],
        'expected normal or full without storage.postgres, found shared',
      ),
    ]
  if (files === 'disk')
    return s3 ? [say(['storage', 'files'], 'expected s3, as there is storage.s3, found disk')] : []
  if (!s3) return [say(['storage', 's3'], 'expected a bucket, as storage.files is s3')]
  return sandbox.home_mib > LARGEST_OBJECT_MIB
    ? [
        say(
          ['sandbox', 'home_mib'],
          `expected at most ${LARGEST_OBJECT_MIB} with storage.files: s3, found ${sandbox.home_mib}`,
        ),
      ]
    : []
}

function describeSetting(issue: SchemaIssue, config: unknown) {
  const [holder, name] = splitPath(issue.path, config)
  const section = holder.join('.')
  const names = [...holder, ...(name === '' ? [] : [name])]
  // An unknown name may be a misplaced secret, so it is not repeated.
  const isShown = issue.expected !== 'no such field' || /^[a-z_]{1,40}$/i.test(name)
  const field = isShown ? issue.path : section
  const expected = isShown ? issue.expected : 'only fields that there are'
  const message = describeIssue({ ...issue, expected }, field || 'The config file')
  return { field, names, message }
}

// A name may contain dots.
function splitPath(path: string, config: unknown): [holder: string[], name: string] {
  const names = path.split('.')
  let [at, depth] = [config, 0]
  for (; depth < names.length - 1; depth++) {
    const name = names[depth] ?? ''
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) break
    at = (at as Record<string, unknown>)[name]
  }
  return [names.slice(0, depth), names.slice(depth).join('.')]
}

// A variable is text. For `port: ${PORT}` it becomes a number: where the setting needs one and the
// text is one.
function findIssues(config: unknown, text: string): SchemaIssue[] {
  const issues = findSchemaIssues(Config, config, MOST_ISSUES)
  if (!text.includes('${')) return issues
  const isReplaced = issues.map(issue => replaceNumber(config, issue)).includes(true)
  return isReplaced ? findIssues(config, text) : issues
}

/** More of them are rather one mistake than many. */
const MOST_ISSUES = 20

function replaceNumber(config: unknown, issue: SchemaIssue): boolean {
  if (!/^(number|integer)\b/.test(issue.expected)) return false
  const path = issue.path.split('.')
  const holder = path
    .slice(0, -1)
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], config) as Record<
    string,
    unknown
  >
  const name = path.at(-1) ?? ''
  const value = holder[name]
  if (typeof value !== 'string' || !/^\d{1,9}$/.test(value)) return false
  holder[name] = Number(value)
  return true
}

function parseYaml(text: string): unknown {
  const parsed = readYaml(text)
  if (text.includes('*') && containsItself(parsed))
    throw invalid('The config file: expected no alias within what it stands for')
  return parsed
}

function readYaml(text: string): unknown {
  try {
    return Bun.YAML.parse(text)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'it cannot be read'
    throw invalid(`The config file is not valid YAML: ${reason}`)
  }
}

function containsItself(
  value: unknown,
  around = new Set<unknown>(),
  known = new Set<unknown>(),
): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (around.has(value)) return true
  if (known.has(value)) return false
  around.add(value)
  const found = Object.values(value).some(member => containsItself(member, around, known))
  around.delete(value)
  known.add(value)
  return found
}

// The default of an object comes before those of its members, so that an omitted section is filled
// in completely.
function fillDefaults(
  schema: { properties?: Record<string, unknown>; default?: unknown },
  settings: unknown,
): unknown {
  if (
    !schema.properties ||
    typeof settings !== 'object' ||
    settings === null ||
    Array.isArray(settings)
  )
    return settings
  const filled: Record<string, unknown> = { ...settings }
  for (const [name, member] of Object.entries(
    schema.properties as Record<string, { default?: unknown }>,
  )) {
    const value = filled[name] ?? structuredClone(member.default)
    if (value !== undefined) filled[name] = fillDefaults(member, value)
  }
  return filled
}
