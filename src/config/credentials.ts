import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../base/schema-builders.ts'

// It is sent in a header.
const Text = (description: string) => Type.String({ format: 'visible-ascii', description })

/**
 * How a provider's credential is sent: in one of several headers, as a signature, as a token bought
 * with it, or not at all.
 */
export const Auth = Type.Union(
  [
    Type.Literal('bearer'),
    Type.Literal('x-api-key'),
    Type.Literal('api-key'),
    Type.Literal('x-goog-api-key'),
    Type.Literal('xi-api-key'),
    Type.Literal('token'),
    Type.Literal('key'),
    Type.Literal('x-key'),
    Type.Literal('sigv4'),
    Type.Literal('google-service-account'),
    Type.Literal('none'),
  ],
  { description: 'How the credential is sent; by default as the provider documents it' },
)

/** AWS credentials in the config file. */
export const AwsConfig = Type.Object(
  {
    access_key_id: Text('The id of the access key'),
    secret_access_key: Text('The access key itself'),
    session_token: Type.Optional(Text('The session token of a temporary key')),
    region: Type.Optional(
      Type.String({
        format: 'slug',
        description: 'The region to sign for; the provider’s region when absent',
      }),
    ),
  },
  { ...closed, description: 'AWS credentials, for providers whose requests are signed' },
)

/**
 * A Google service account in the config file: Google's own JSON, whose other members are ignored.
 */
export const ServiceAccountConfig = Type.Union(
  [Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())],
  {
    description: 'The JSON of a Google service account, as text or as a mapping',
  },
)
export type Auth = Static<typeof Auth>
