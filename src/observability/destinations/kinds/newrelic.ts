import { Type } from '@sinclair/typebox'
import { closed, oneOf } from '../../../base/schema-builders.ts'
import { buildHeadersSchema, Credential } from '../config.ts'
import { createOtlpKind } from '../otlp/kind.ts'

const HOSTS = { us: 'https://otlp.nr-data.net', eu: 'https://otlp.eu01.nr-data.net' }

const Region = oneOf('us', 'eu')

const CONFIG = Type.Object(
  {
    headers: buildHeadersSchema('api-key'),
    licenseKey: Credential,
    region: Type.Optional({ ...Region, default: 'us' }),
  },
  closed,
)

/** New Relic: its OTLP endpoint of the account's region, with the licence key. */
export const newrelic = createOtlpKind({
  type: 'newrelic',
  config: CONFIG,
  secrets: ['licenseKey'],
  address: [],
  findUrl: ({ region = 'us' }) => `${HOSTS[region]}/v1/traces`,
  buildHeaders: ({ licenseKey }) => ({ 'api-key': licenseKey }),
})
