import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../kernel/schema-builders.ts'

// It travels in a header.
const Text = (description: string) => Type.String({ format: 'visible-ascii', description })

/** How a provider's credential travels: in one header or another, as a signature, as a token bought with it, or not at all. */
export const Auth = Type.Union(
  [
    Type.Literal('bearer'),
    Type.Literal('x-api-key'),
    Type.Literal('api-key'),
    Type.Literal('x-goog-api-key'),
    Type.Literal('sigv4'),
    Type.Literal('google-service-account'),
    Type.Literal('none'),
  ],
  { description: 'How the credential travels; by default as the provider documents it' },
)

/** Credentials of AWS, as the config file has them. */
export const AwsConfig = Type.Object(
  {
    access_key_id: Text('The id of the access key'),
    secret_access_key: Text('The access key itself'),
    session_token: Type.Optional(Text('Goes with a key that is only lent')),
    region: Type.Optional(
      Type.String({
        format: 'slug',
        description: 'The region to sign for; like the provider’s when absent',
      }),
    ),
  },
  { ...closed, description: 'Credentials of AWS, for providers whose requests are signed' },
)

/** A Google service account, as the config file has it: Google's own JSON, whose other members are left alone. */
export const ServiceAccountConfig = Type.Union(
  [Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())],
  {
    description: 'The JSON of a Google service account, as text or as it is',
  },
)
export type Auth = Static<typeof Auth>
