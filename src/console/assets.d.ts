/** The bundler puts a style sheet beside the program that imports it. */
declare module '*.css'
