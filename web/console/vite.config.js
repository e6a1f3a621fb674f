// Builds dist/, which the binary contains. The names of the files are fixed: crates/api/src/console/assets.rs lists them.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  build: {
    outDir: process.env.CONSOLE_DIST ?? "dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "console.js", assetFileNames: "console[extname]", codeSplitting: false },
    },
  },
});
