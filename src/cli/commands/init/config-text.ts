import { SCHEMA_LINE } from '../../../config/editor-schema.ts'
import type { ProviderConfig } from '../../../config.ts'

interface FirstConfig {
  slug: string
  settings: ProviderConfig
  /** A model for calls that name none. */
  model: string | null
}

/** Renders a first config with comments. Its secrets are names of variables or files. */
export const renderConfig = ({ slug, settings, model }: FirstConfig): string =>
  render(
    `${slug}:\n${renderMapping(settings, '    ')}`,
    model === null ? '# default_model: sandbox/echo' : `default_model: ${JSON.stringify(model)}`,
  )

/** Renders a config of comments: every setting has its default. */
export const renderEmptyConfig = (): string => render(NO_PROVIDER, '# default_model: sandbox/echo')

const NO_PROVIDER = `{}
  # openai: { api_key: "\${OPENAI_API_KEY}" }`

const render = (provider: string, model: string): string =>
  `${SCHEMA_LINE}
# The configuration of this gateway. A running server applies a change within two seconds.
# gateway config check finds mistakes; gateway config schema describes every setting.

providers:
  # A name in \${…} is a variable of the environment; after file: it is a file beside this one,
  # which holds the secret and is readable by its owner only.
  ${provider}
  # Any other provider that is known by name needs its credential alone:
  # anthropic: { api_key: "\${ANTHROPIC_API_KEY}" }

# The model of calls that name none. gateway models list shows them all.
${model}

# server:
#   host: 0.0.0.0 # to be reached from other machines; put TLS in front of it
#   port: 8080

# limits:
#   requests_per_minute: 60 # of one API key
`

const renderMapping = (settings: object, indent: string): string =>
  Object.entries(settings)
    .map(([name, value]) => `${indent}${name}:${renderValue(value, indent)}`)
    .join('\n')

const renderValue = (value: unknown, indent: string): string =>
  typeof value === 'object' && value !== null
    ? `\n${renderMapping(value, `${indent}  `)}`
    : ` ${JSON.stringify(value)}`
