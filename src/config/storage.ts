import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../base/schema-builders.ts'

const Credential = (description: string) => Type.String({ format: 'visible-ascii', description })

/** The bucket that has the bytes of files, where `storage.files` is `s3`. */
export const BucketConfig = Type.Object(
  {
    endpoint: Type.Optional(
      Type.String({ format: 'url', description: 'The address of the service; Amazon’s if absent' }),
    ),
    bucket: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$',
      title: 'the name of a bucket: letters, digits and . _ -',
      description: 'The bucket, which must exist',
    }),
    prefix: Type.String({
      default: '',
      maxLength: 255,
      pattern: '^(?!(?:.*/)?\\.{1,2}(?:/|$))[A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*/?$',
      title: 'folders of letters, digits and . _ - without ..',
      description: 'The folder in the bucket that is the gateway’s alone',
    }),
    region: Type.String({
      format: 'slug',
      default: 'us-east-1',
      description: 'The region to sign for',
    }),
    access_key_id: Credential('The id of the access key'),
    secret_access_key: Credential('The access key itself'),
    session_token: Type.Optional(Credential('The session token of a temporary key')),
  },
  { ...closed, description: 'The bucket of files' },
)
export type BucketConfig = Static<typeof BucketConfig>

/** The database in which everything is but the bytes of files. */
export const PostgresConfig = Type.Object(
  {
    url: Type.String({
      format: 'postgres-url',
      description:
        'The database, as postgres://user:password@host:5432/database; ?sslmode=verify-full has its ' +
        'certificate verified',
    }),
    connections: Type.Integer({
      default: 8,
      minimum: 2,
      maximum: 100,
      description: 'How many connections are used at once at most',
    }),
  },
  { ...closed, description: 'The database in Postgres that has what else is in gateway.db' },
)
export type PostgresConfig = Static<typeof PostgresConfig>

/** What splits and remembers for several servers beside Postgres. */
export const ValkeyConfig = Type.Object(
  {
    url: Type.String({
      format: 'valkey-url',
      description:
        'The server, as redis://user:password@host:6379/0; rediss:// is verified TLS, and ' +
        'redis+unix:///path a socket',
    }),
  },
  {
    ...closed,
    description:
      'A server of Valkey or Redis beside storage.postgres, for what is hot: nothing depends on it',
  },
)

/** Names a database of Postgres by its URL, without who opens it. */
export function describeDatabase(url: string): string {
  const { host, pathname } = new URL(url)
  return `${host}${pathname}`
}
